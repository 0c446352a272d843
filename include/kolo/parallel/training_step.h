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

// Numbers that may still be on their way from a device to the host.
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

// A training step over all ranks: backward with overlapped averaging of the gradients, one fused
// pass of the optimizer for each bucket as soon as it is averaged, and a few numbers that the ranks
// add up meanwhile:
//
//   step.begin(number);
//   step.backward(loss, numbers);        // or several: backward(loss, numbers, weight, is_last)
//   auto pending = step.finish(rate);
//   auto [sums, is_made] = step.end(pending);
//
// All buckets are updated at the end where the whole gradient must be known first (clipping,
// leaving out steps that are not finite). On a device steps are enqueued without waiting, and
// clipping and leaving out are decided there; grad() then stays neither divided by the loss scale
// nor clipped (GradientUse).
//
// For loops of one's own; kolo's Trainer is one. Every rank has one of the same network and
// options, and makes the same steps.
class TrainingStep {
 public:
  // The network's parameters and buffers become rank 0's. Collective.
  TrainingStep(Communicator communicator, std::shared_ptr<torch::nn::Module> network,
               std::shared_ptr<const FlatOptimizer> optimizer, const StepSettings& settings = {});
  ~TrainingStep();

  // Begins step number `number`, from 1 on, and clears gradients. Then backward() for each pass,
  // and finish(). Collective, all three.
  void begin(std::int64_t number);
  // Adds a pass's gradients, times `weight`, to the step's, and averages them over the ranks while
  // the last pass runs. `numbers` ([as many in each], float64) are added up over passes and ranks;
  // the first tells whether the loss is finite. With virtual ranks: once for each of parts(), in
  // their order.
  void backward(const torch::Tensor& loss, const torch::Tensor& numbers = {}, double weight = 1,
                bool is_last = true);
  // For PipelineStep::run(), in place of backward(); its numbers are added with add().
  [[nodiscard]] PipelineStep::Backward pipeline();
  void add(const torch::Tensor& numbers);

  // A step that has been given to a device, which may not have come to it yet.
  class Pending {
   private:
    friend class TrainingStep;
    Pending(std::int64_t step, LateNumbers numbers) : step_(step), numbers_(std::move(numbers)) {}
    std::int64_t step_;
    LateNumbers numbers_;
    Work meeting_;  // of the ranks, in a captured step
  };
  // Averages, decides whether the step is left out, clips, updates. On the host all is done when
  // it returns; on a device the next step may follow at once, and end() tells of it in order.
  [[nodiscard]] Pending finish(double learning_rate);

  struct Outcome {
    std::vector<double> sums;  // of the numbers, over all ranks
    bool is_made = true;       // false: left out, on all ranks
  };
  // Waits until the device has done the step. The optimizer doesn't count one that was left out; on
  // the host it must be known before the next one begins. Error where too many in a row were left
  // out, on a device some steps late. Collective where the step was left out.
  Outcome end(const Pending& step);

  // Parts that this rank computes of all virtual ranks'; without these it is one itself.
  [[nodiscard]] PartRange parts() const;
  // A step that a device is given in one call (a CUDA graph), always with the same memory.
  class Captured;
  // Captures a step without making it, after a few steps of other batches of this shape; passes()
  // call backward() for a batch in memory of its own. Error where it can't be captured: parameters
  // take no part in it, an operator waits for the device, several ranks average through the host
  // (NCCL doesn't), or the current stream, or the last step's, is the default one. Collective.
  [[nodiscard]] std::shared_ptr<Captured> capture(const std::function<void()>& passes,
                                                  double learning_rate, std::int64_t number);
  // Gives a captured step to the device, as step number `number`. The watch doesn't see the
  // device's collectives, so the ranks also meet on the host, for which end() waits. Collective.
  [[nodiscard]] Pending replay(Captured& captured, double learning_rate, std::int64_t number);
  // Sets a function to be called between forward and backward of each step of one pass that is not
  // replayed.
  void listen(std::function<void()> forward_is_done) {
    forward_is_done_ = std::move(forward_is_done);
  }

  [[nodiscard]] const std::shared_ptr<ParameterArena>& arena() const { return arena_; }
  // Ranks that train the same parameters, with their own order of collectives. What they exchange
  // from devices goes through it, as NCCL takes GPU memory for each communicator.
  [[nodiscard]] Communicator replicas() const {
    return arena_->gradient_communicator(communicator_);
  }
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
  // State of a step between begin() and finish().
  struct Passes;
  [[nodiscard]] Passes& passes();
  void end_part(Passes& passes);
  void start_summing(Passes& passes);
  // Makes the rest of a step, or gives it to the device. Returns the sums over all ranks and, where
  // a step may be left out, one more number that tells whether it is.
  [[nodiscard]] torch::Tensor complete(double learning_rate);
  void update_as_reduced(double learning_rate, std::int64_t step);
  // Returns one int32, not 0 where the step is left out; undefined: it can't be.
  [[nodiscard]] torch::Tensor update_at_end(double learning_rate, std::int64_t step,
                                            const torch::Tensor& sums);
  [[nodiscard]] torch::Tensor update_on_host(double learning_rate, std::int64_t step,
                                             const torch::Tensor& sums);
  [[nodiscard]] torch::Tensor update_on_device(double learning_rate, std::int64_t step,
                                               const torch::Tensor& sums);
  void update_all(double learning_rate, std::int64_t step, const GradientUse& use);
  // One int32, not 0 where gradients or loss are not finite; undefined: nobody asks.
  [[nodiscard]] torch::Tensor left_out_on_device(const torch::Tensor& sums) const;
  // Factor of gradients by loss scale and clipping; undefined: 1.
  [[nodiscard]] torch::Tensor factor_on_device() const;
  // [1], float64: of the whole network's averaged gradient, as it is in the arenas.
  [[nodiscard]] torch::Tensor squared_norm() const;
  // Communicator over which skipping and clipping are agreed.
  [[nodiscard]] const Communicator& deciding() const { return world_ ? *world_ : communicator_; }
  [[nodiscard]] bool skips_non_finite() const {
    return settings_.non_finite == NonFiniteStep::skip;
  }
  [[nodiscard]] bool may_skip() const { return skips_non_finite() || scaler_; }

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
  std::unique_ptr<Passes> passes_;
};

}  // namespace kolo
