#pragma once

#include <optional>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/bucket_plan.h"
#include "kolo/parallel/grad_scaler.h"
#include "kolo/parallel/gradient_reducer.h"
#include "kolo/parallel/step_conflicts.h"
#include "kolo/parallel/timeline.h"

namespace kolo {

// Settings of a TrainingStep, under their names in configurations (docs/use/configuration.md). Some
// exclude each other (conflicts()): Error.
struct StepSettings {
  BucketLimits buckets;
  ReducerOptions reducer;
  // Disabled without communication. The step sets StepSharing::averages itself: unless something
  // else needs the average (needs_whole_gradient(), a hook, virtual ranks).
  StepSharing shared_step;
  // Each rank keeps and updates its part of the optimizer's state (ShardedArenaOptimizer) instead
  // of sharing steps with its node: the same bits where gradients are reduced in the same order.
  // InputError for optimizers that need whole parameters.
  bool sharded = false;
  double clip_norm = 0;  // above 0: of the averaged gradient, which is scaled down to it
  // The step acts on `skip`; `stop` is for the caller, who sees the loss (Trainer).
  NonFiniteStep non_finite = NonFiniteStep::stop;
  // Scales the loss (GradScaler), as fp16 needs it. Steps whose gradients overflow are left out on
  // all ranks, whatever `non_finite` says; Error after many in a row. Costs two passes over the
  // gradients, and the overlap of updates, as `skip` does.
  std::optional<LossScaleOptions> loss_scale;
  // All ranks, mesh.world(), where they hold different parts of a network (PipelineStep), each as
  // many. They add up the sums, decide alike whether a step is left out, and clip by the whole
  // network's norm. Unset: the ranks that average. A Trainer sets it by itself.
  std::optional<Communicator> world = std::nullopt;
  // Above 0: a step has so many parts, at least one a rank (kolo/layout/virtual_ranks.h), and gives
  // the same bits on any number of ranks, where the parts' gradients do. Each part begins with the
  // same buffers, and the first part's stay, on all ranks. Costs memory for log2(parts of a rank) +
  // 1 copies of the gradients (rounded down), none with one part a rank.
  int virtual_ranks = 0;
  // Records forward, backward, each bucket's wait and update; in a Trainer also data wait, step and
  // validation.
  Timeline timeline;
};

// Tells whether the whole averaged gradient must be known before any of it is used.
[[nodiscard]] bool needs_whole_gradient(const StepSettings& settings);

// Features in use, as kolo/parallel/step_conflicts.h knows them.
[[nodiscard]] StepFeatures features_of(const StepSettings& settings);

}  // namespace kolo
