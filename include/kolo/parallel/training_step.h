#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <c10/core/Event.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/layout/virtual_ranks.h"
#include "kolo/parallel/bucket_optimizer.h"
#include "kolo/parallel/checks.h"
#include "kolo/parallel/grad_scaler.h"
#include "kolo/parallel/gradient_reducer.h"
#include "kolo/parallel/parameter_arena.h"
#include "kolo/parallel/pipeline_step.h"
#include "kolo/parallel/step_settings.h"

namespace kolo {

class OrderedAverage;

// Numbers of a device on their way to the host; those of the host are there.
class LateNumbers {
 public:
  // Copies a tensor of float64, in the order of the current stream.
  explicit LateNumbers(const torch::Tensor& numbers);
  // Waits for the copy.
  [[nodiscard]] std::vector<double> get() const;

 private:
  torch::Tensor copy_;
  std::shared_ptr<c10::Event> copied_;
};

// A training step over all ranks: forward, backward with overlapped averaging of the gradients, one
// fused pass of the optimizer for each bucket as soon as it is averaged, and a few numbers that the
// ranks add up meanwhile. Where the whole gradient must be known first (clipping, leaving out what
// is not finite), all buckets are updated at the end.
//
// Where the parameters are on a device, a step is given to it without waiting: what is decided by
// the gradients is decided there. Of GradientUse, grad() keeps what was averaged: neither divided
// by the loss scale nor clipped.
//
// For loops of one's own that know where their samples come from; kolo's Trainer is one. Every rank
// has one of the same network and options, and makes the same steps.
class TrainingStep {
 public:
  // The network's parameters and buffers become rank 0's. Collective.
  TrainingStep(Communicator communicator, std::shared_ptr<torch::nn::Module> network,
               std::shared_ptr<const FlatOptimizer> optimizer, const StepSettings& settings = {});

  // What a forward pass has come to.
  struct Forward {
    torch::Tensor loss;  // to call backward() on: the mean over this rank's samples
    // To be added up over the ranks: [as many on each], float64, where the parameters are. The
    // first one tells whether the loss is finite; undefined, only gradients are looked at.
    torch::Tensor sums;
  };
  struct Outcome {
    std::vector<double> sums;  // of all ranks
    bool is_made = true;       // false: left out, on all ranks
  };

  // A step that has been given to a device, which may not have come to it yet.
  class UnderWay {
   private:
    friend class TrainingStep;
    UnderWay(std::int64_t step, LateNumbers numbers) : step_(step), numbers_(std::move(numbers)) {}
    std::int64_t step_;
    LateNumbers numbers_;
    Work meeting_;  // of the ranks, in a recorded step
  };

  // Makes the gradients of a batch by several passes (PipelineStep::run()), and returns their sums,
  // as Forward has them: as many on each rank, zeros where there is nothing to add.
  using GradientPasses = std::function<torch::Tensor(const PipelineStep::Backward&)>;

  // Makes step number `step`, from 1 on: begin() and end(). Collective.
  Outcome make(const std::function<Forward()>& forward, double learning_rate, std::int64_t step);
  Outcome make(const GradientPasses& passes, double learning_rate, std::int64_t step);

  // Gives a step to the device, and doesn't wait for it: the next one may follow at once. What it
  // has come to is told by end(), in the order of the steps. On the host it is done when begin()
  // returns. Collective.
  [[nodiscard]] UnderWay begin(const std::function<Forward()>& forward, double learning_rate,
                               std::int64_t step);
  [[nodiscard]] UnderWay begin(const GradientPasses& passes, double learning_rate,
                               std::int64_t step);
  // With virtual ranks: makes this rank's parts(), one after another.
  using ForwardOfPart = std::function<Forward(int part)>;
  [[nodiscard]] UnderWay begin(const ForwardOfPart& forward, double learning_rate,
                               std::int64_t step);
  // Those of all virtual ranks that this rank computes; without virtual ranks it is one itself.
  [[nodiscard]] PartRange parts() const;
  // A step that a device can be given in one call (a CUDA graph), always with the same memory.
  class Recorded;
  // Records a step whose forward() reads a batch in memory of its own, and doesn't make it. Error
  // where it can't be: where parameters take no part in it, where an operator waits for the device
  // or the average goes through the host, and on the default stream (of which the step before it
  // must not have been either). After a few steps of other batches of this shape. With several
  // ranks, where their averages are only given to the device (NCCL). Not of several passes.
  // Collective.
  [[nodiscard]] std::shared_ptr<Recorded> record(const std::function<Forward()>& forward,
                                                 double learning_rate, std::int64_t step);
  // Gives a recorded one to the device, as step number `step`. The watch sees nothing of what the
  // device does in it: the ranks meet on the host besides, for which end() waits. Collective.
  [[nodiscard]] UnderWay begin(Recorded& recorded, double learning_rate, std::int64_t step);
  // Waits until the device has done the step. Error where too many in a row were left out, which of
  // a device may be known some steps late. Collective where the step was left out.
  Outcome end(const UnderWay& step);
  // Is called between forward and backward of each step that is not a recorded one, nor made by
  // several passes.
  void listen(std::function<void()> forward_is_done) {
    forward_is_done_ = std::move(forward_is_done);
  }

  [[nodiscard]] const std::shared_ptr<ParameterArena>& arena() const { return arena_; }
  [[nodiscard]] BucketOptimizer& optimizer() { return *optimizer_; }
  [[nodiscard]] const BucketOptimizer& optimizer() const { return *optimizer_; }
  // To use the network between two steps: see BucketOptimizer. Collective.
  void to_evaluation() { optimizer_->to_evaluation(); }
  void to_training() { optimizer_->to_training(); }
  [[nodiscard]] GradientReducer& reducer() { return reducer_; }
  [[nodiscard]] const GradientReducer& reducer() const { return reducer_; }
  // Null without a loss scale.
  [[nodiscard]] GradScaler* scaler() { return scaler_ ? &*scaler_ : nullptr; }
  [[nodiscard]] const GradScaler* scaler() const { return scaler_ ? &*scaler_ : nullptr; }

 private:
  // Gives all of a step to the device, or makes it on the host. Returns the sums over all ranks
  // and, where it may be left out, one more number that tells whether it is.
  [[nodiscard]] torch::Tensor enqueue(const std::function<Forward()>& forward, double learning_rate,
                                      std::int64_t step);
  // `gradients` makes them, starts the adding up of the sums, and returns these.
  [[nodiscard]] torch::Tensor enqueue_with(const std::function<torch::Tensor(Work&)>& gradients,
                                           double learning_rate, std::int64_t step);
  [[nodiscard]] torch::Tensor one_pass(const std::function<Forward()>& forward, Work& summing);
  [[nodiscard]] torch::Tensor part_by_part(const ForwardOfPart& forward, Work& summing);
  [[nodiscard]] torch::Tensor start_summing_parts(const torch::Tensor& sums, Work& summing);
  [[nodiscard]] Work start_summing(const torch::Tensor& sums);
  void update(double learning_rate, std::int64_t step);
  // Returns one int32, not 0 where the step is left out; undefined: it can't be.
  [[nodiscard]] torch::Tensor update_together(double learning_rate, std::int64_t step,
                                              const torch::Tensor& sums);
  [[nodiscard]] torch::Tensor update_on_host(double learning_rate, std::int64_t step,
                                             const torch::Tensor& sums);
  [[nodiscard]] torch::Tensor update_on_device(double learning_rate, std::int64_t step,
                                               const torch::Tensor& sums);
  void update_all(double learning_rate, std::int64_t step, const GradientUse& use);
  // Whether gradients, and the loss, are to be used; what norm they have.
  [[nodiscard]] torch::Tensor left_out_on_device(const torch::Tensor& sums) const;
  [[nodiscard]] torch::Tensor factor_on_device() const;
  // [1], float64: of the whole network's averaged gradient, as it is in the arenas.
  [[nodiscard]] torch::Tensor squared_norm() const;
  // Those who decide together.
  [[nodiscard]] const Communicator& deciding() const { return world_ ? *world_ : communicator_; }
  [[nodiscard]] bool skips_non_finite() const {
    return settings_.non_finite == NonFiniteStep::skip;
  }
  [[nodiscard]] bool may_skip() const { return skips_non_finite() || scaler_; }
  // Whether the whole gradient must be known before any of it is used.
  [[nodiscard]] bool updates_together() const { return settings_.clip_norm > 0 || may_skip(); }

  Communicator communicator_;
  std::optional<Communicator> world_;  // in an order of its own
  std::shared_ptr<torch::nn::Module> network_;
  StepSettings settings_;
  std::shared_ptr<ParameterArena> arena_;
  std::shared_ptr<OrderedAverage> ordered_;  // none without virtual ranks
  std::unique_ptr<BucketOptimizer> optimizer_;
  GradientReducer reducer_;
  FiniteCheck finite_check_;
  std::function<void()> forward_is_done_;
  std::optional<GradScaler> scaler_;
};

}  // namespace kolo
