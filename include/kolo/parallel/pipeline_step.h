#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/base/network_stage.h"
#include "kolo/layout/pipeline_schedule.h"
#include "kolo/parallel/device_mesh.h"
#include "kolo/parallel/gradient_reducer.h"
#include "kolo/parallel/timeline.h"

namespace kolo {

struct PipelineStepOptions {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int micro_batches = 1;
  // Rank i has the stages [bounds[i], bounds[i + 1]). The same on all ranks.
  std::vector<std::size_t> bounds;
  // Seed of random numbers (dropout), which depend on it, the coordinate along the mesh's data
  // axis, step, micro-batch and stage of the network alone: not on schedule, bounds or number of
  // ranks.
  std::uint64_t seed = 1;
  // Length of PipelineStep::Loss::sums.
  std::int64_t sums = 0;
  // Records each pass, by its name (PipelinePass), and the waiting before it.
  Timeline timeline = {};
};

// The gradients of a batch by a pipeline: each rank along the mesh's axis `pipe` has some stages of
// a network, and the micro-batches of a batch go through all of them in turn. Source: Huang et al.,
// arXiv:1811.06965; for schedules see kolo/layout/pipeline_schedule.h, whose lists are carried out.
//
// It computes, to the bit and for any schedule, what one rank computes that calls backward() on
// each micro-batch's loss, divided by their number, one after another, and adds up the gradients.
// Batch norms see micro-batches, not batches.
//
// A rank has the parameters of its own stages alone (module()), which an arena, a reducer over
// mesh.replicas() and an optimizer take as they take any network. Payloads travel over
// mesh.axis(MeshAxis::pipe), in the memory order that they have, asynchronously: a rank waits where
// it has nothing else to do. What they look like (types, shapes, strides, which of them need
// gradients) is told with the first one that each rank sends; one that looks different in a later
// micro-batch or step is an Error that names both.
//
// One thread calls it. A rank that throws (a stage, a loss) ends the step on that rank alone: the
// others wait until it leaves the job.
class PipelineStep {
 public:
  // Result of the last rank for an output.
  struct Loss {
    torch::Tensor loss;  // the mean over the micro-batch, to call backward() on
    torch::Tensor sums;  // [options.sums], float64: added up over the micro-batches
  };
  // Inputs of a batch, and losses of its outputs; micro-batches from 0 on.
  struct Batch {
    // The input of a micro-batch; called on the first rank.
    std::function<torch::Tensor(int micro_batch)> input;
    // Called on the last rank.
    std::function<Loss(const torch::Tensor& output, int micro_batch)> loss;
  };
  // Options of backward.
  struct Backward {
    // Averages what the passes add up, while the last ones run; null: gradients only add up.
    GradientReducer* reducer = nullptr;
    // Gives the tensor to call backward() on: GradScaler::scaled(). Empty: the loss itself.
    std::function<torch::Tensor(const torch::Tensor& loss)> scaled = {};
  };

  // `stages` is the whole chain, the same on all ranks; this rank's are kept, and the others go
  // with who else has them. InputError for bounds that don't cut the chain in as many parts as
  // there are ranks, parts with a tensor in common, and what pipeline_actions() refuses.
  // Collective: Error on all ranks of the pipeline where their options differ.
  PipelineStep(const DeviceMesh& mesh, std::vector<NetworkStage> stages,
               const PipelineStepOptions& options);
  PipelineStep(PipelineStep&&) = delete;
  ~PipelineStep();

  // This rank's part of the network: its modules, parameters and buffers under their whole names.
  [[nodiscard]] const std::shared_ptr<torch::nn::Module>& module() const;
  [[nodiscard]] bool is_last() const;

  // Forward and backward of all micro-batches; adds to the gradients of this rank's parameters.
  // Returns the sums over the micro-batches on the last rank, and zeros elsewhere: [sums],
  // float64, where the parameters are. Collective over the pipe axis, and where there is a reducer
  // as its backward() is.
  torch::Tensor run(const Batch& batch, std::int64_t step, const Backward& backward);
  torch::Tensor run(const Batch& batch, std::int64_t step) { return run(batch, step, {}); }

  // Forward alone, without gradients, of so many micro-batches that look alike (others than those
  // of steps, if need be); of what batch.loss() returns the sums count. Collective over the pipe
  // axis.
  torch::Tensor evaluate(const Batch& batch, int micro_batches);

  // Time since the last call that run() and evaluate() have taken, and how much of it this rank has
  // waited for others. On a device the host's time, which is ahead of the device's.
  struct IdleTime {
    double seconds = 0;
    double waiting_seconds = 0;
    [[nodiscard]] double fraction() const { return seconds > 0 ? waiting_seconds / seconds : 0; }
  };
  [[nodiscard]] IdleTime take_idle_time();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace kolo
