#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <torch/types.h>

#include "kolo/base/named_tensor.h"
#include "kolo/comm/communicator.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/parameter_arena.h"

namespace kolo {

namespace parallel {
class TensorSteps;
struct BucketRun;
}  // namespace parallel

// Treatment of gradients on a device, told by tensors there, so that nobody waits to know it.
// Undefined: as they are.
struct GradientUse {
  torch::Tensor factor;    // one float64, by which they are multiplied for the step
  torch::Tensor left_out;  // one int32: not 0 leaves parameters and state as they are
};

// A fused optimizer over an arena of float32 or float64. It works bucket by bucket, so that buckets
// are updated while later ones are still on the wire; parameter by parameter where the algorithm
// needs whole ones, and with vectors (biases, batch norms) apart where it treats them in another
// way. Its state is laid out by the arena's plan: Error when that has changed since
// (ReducerOptions::rebuild_buckets).
//
// Parameters that take no part in a step (ParameterArena::takes_part) keep their values and state;
// their steps are counted apart, as in torch::optim.
//
// A step: update() of every bucket, in any order, then finish(). The implementations differ in
// which elements of a bucket a rank updates: ArenaOptimizer all of them, or its part on its node;
// ShardedArenaOptimizer its part among all ranks. All give the same bits.
class BucketOptimizer {
 public:
  BucketOptimizer(const BucketOptimizer&) = delete;
  BucketOptimizer& operator=(const BucketOptimizer&) = delete;
  virtual ~BucketOptimizer();

  // One step for one bucket; `step` counts from 1. `use`: on devices alone.
  void update(std::size_t bucket, double learning_rate, std::int64_t step,
              const GradientUse& use = {});
  // Squared norm of all averages together, one float64 where they are: before the first update().
  // Collective where is_sharded().
  [[nodiscard]] virtual torch::Tensor squared_norm() const;
  void scale_gradients(double factor) const;
  // Scales to a norm of at most maximum_norm by clip_factor(), and returns the norm before.
  double clip_gradients(double maximum_norm) const;

  // Puts the constants of step `step` onto the device, where a CUDA graph of updates reads them:
  // before the graph is captured or replayed. Follows another step.
  void prepare(double learning_rate, std::int64_t step);
  // Blocks until all parameters are complete. Before the next forward pass.
  void finish();
  // Step number `step` was left out: no parameter's count of steps has it, as in PyTorch. On a
  // device it may be told when the next step has been made, which then counted one too many.
  void leave_out(std::int64_t step);

  // For algorithms that average (FlatOptimizer::for_use; nothing happens for others): the
  // parameters become those to use the network with, until to_training() brings back the trained
  // bits. Between two steps. Costs a copy of the parameters meanwhile. Collective.
  void to_evaluation();
  void to_training();
  // Part of a checkpoint of an optimizer that averages.
  [[nodiscard]] const RateHistory& rate_history() const { return rates_; }
  void set_rate_history(const RateHistory& rates) {
    rates_ = rates;
    noted_step_ = 0;
  }

  // The whole state, named "<parameter>.<state>" ("conv1.weight.exp_avg"), for checkpoints: between
  // finish() and the next step's gradients. Views where this rank has it all; otherwise copies, for
  // which all ranks call it, with `only` for that rank alone (the others get nothing, and need
  // memory for a bucket).
  [[nodiscard]] virtual std::vector<NamedTensor> named_state(
      std::optional<int> only = {}) const = 0;
  // Inverse of named_state(): fill() is called on the first of the ranks, with tensors for the
  // whole state, of which each rank gets its part. `skipped_steps` is given on each rank.
  // Collective.
  using FillState = std::function<void(const std::vector<NamedTensor>& whole)>;
  virtual void scatter_state(const Communicator& ranks, std::span<const std::int64_t> skipped_steps,
                             const FillState& fill) = 0;
  // Counts of the steps that each parameter, in the order of the plan, took no part in: part of a
  // checkpoint unless they are zeros.
  [[nodiscard]] const std::vector<std::int64_t>& skipped_steps() const { return skipped_; }
  void set_skipped_steps(std::span<const std::int64_t> counts);
  // Bytes of state that this rank holds.
  [[nodiscard]] std::int64_t state_bytes() const;

  // Hook by which gradients must be averaged for it; null: all-reduce, or any other hook.
  [[nodiscard]] virtual std::shared_ptr<GradientHook> gradient_hook() const { return nullptr; }
  // Tells whether each rank has only a part of the state, and of the averages.
  [[nodiscard]] virtual bool is_sharded() const { return false; }
  // Tells whether the ranks of this node share steps.
  [[nodiscard]] virtual bool is_shared() const { return false; }
  // Tells whether update() averages the ranks' gradients itself. Until then each rank's are its
  // own, and nothing may need their average.
  [[nodiscard]] virtual bool averages_in_update() const { return false; }

  [[nodiscard]] const FlatOptimizer& algorithm() const { return *algorithm_; }

 protected:
  // `name` is for messages.
  BucketOptimizer(std::shared_ptr<ParameterArena> arena,
                  std::shared_ptr<const FlatOptimizer> algorithm, std::string name);

  // Elements [begin, end) of a bucket, whose state begins at element `state` of its tensors.
  struct Own {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t state = 0;
  };
  void require_same_plan() const;
  // Parts of a bucket's gradients that hold averages on this rank.
  [[nodiscard]] virtual std::vector<torch::Tensor> averages(std::size_t bucket) const;
  // The state's names and views, in buffers laid out like the parameters.
  [[nodiscard]] std::vector<NamedTensor> named(
      const std::vector<std::vector<torch::Tensor>>& whole) const;
  [[nodiscard]] ParameterArena& arena() const { return *arena_; }

  std::vector<std::vector<torch::Tensor>> state_;  // by state, by bucket

 private:
  // Parts of a bucket that this rank updates.
  [[nodiscard]] virtual std::vector<Own> own_parts(std::size_t bucket) const = 0;
  // Flat gradients of all ranks, whose average update() takes; none: the arena's are averaged.
  [[nodiscard]] virtual std::vector<torch::Tensor> gradients_to_average(
      std::size_t /*bucket*/) const {
    return {};
  }
  virtual void begin_step() {}
  // Called when this rank's parts of the bucket are updated.
  virtual void end_bucket(std::size_t /*bucket*/) {}
  virtual void end_step() {}

  void enter_step();
  [[nodiscard]] std::vector<parallel::BucketRun> runs(std::size_t bucket, std::int64_t step,
                                                      const Own& own) const;
  void update_run(const parallel::BucketRun& run, std::size_t bucket, const Own& own, StepRate rate,
                  const GradientUse& use);
  template <typename Change>
  void change_parameters(const Change& change);

  std::shared_ptr<ParameterArena> arena_;
  std::int64_t version_;  // of the arena's plan
  std::string name_;
  std::shared_ptr<const FlatOptimizer> algorithm_;
  std::vector<std::int64_t> skipped_;  // by parameter
  std::unique_ptr<parallel::TensorSteps> steps_;
  // After to_evaluation(): by bucket, what this rank trains of it.
  std::vector<std::vector<torch::Tensor>> trained_;
  RateHistory rates_;
  std::int64_t noted_step_ = 0;  // the last one in it
  std::int64_t left_out_ = 0;    // steps left out that prepare() has counted
  double weight_ = 1;            // of the step that is being made, in the average
  bool is_in_step_ = false;
};

}  // namespace kolo
