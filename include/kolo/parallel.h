#pragma once

// All of the library for data-parallel training with LibTorch: ranks and their collectives,
// samplers, optimizers, and what keeps replicas of a network equal. And all of LibTorch, which a
// training loop needs besides; the single headers include only what they use of it.

#include <torch/torch.h>

#include "kolo/base/error.h"
#include "kolo/comm/communicator.h"
#include "kolo/comm/mpi.h"
#include "kolo/comm/threads.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/optim/learning_rate.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/parallel/bucket_plan.h"
#include "kolo/parallel/checks.h"
#include "kolo/parallel/device_clock.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/parallel/device_mesh.h"
#include "kolo/parallel/device_usage.h"
#include "kolo/parallel/differentiable_collectives.h"
#include "kolo/parallel/distributed_optimizer.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/gradient_reducer.h"
#include "kolo/parallel/halo_exchange.h"
#include "kolo/parallel/initialize.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/parallel/parameter_arena.h"
#include "kolo/parallel/pipeline_stages.h"
#include "kolo/parallel/pipeline_state.h"
#include "kolo/parallel/pipeline_step.h"
#include "kolo/parallel/profiler_range.h"
#include "kolo/parallel/sharded_arena_optimizer.h"
#include "kolo/parallel/sharded_optimizer.h"
#include "kolo/parallel/spatial_part.h"
#include "kolo/parallel/sync_batch_norm.h"
#include "kolo/parallel/tensor_collectives.h"
#include "kolo/parallel/timeline.h"
#include "kolo/parallel/torch_sampler.h"
#include "kolo/parallel/trained_modules.h"
#include "kolo/parallel/training_step.h"
#include "kolo/sampling/sampler.h"
