#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <torch/types.h>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/parameter_arena.h"

namespace kolo {

namespace parallel {
class TensorSteps;
class SharedStep;
class ParameterGroups;
struct BucketRun;
}  // namespace parallel

// When the ranks of a node share an optimizer's steps.
struct StepSharing {
  bool enabled = true;
  // Of the parameters. A shared step takes two meetings of the node's ranks, which a small
  // network's update isn't worth.
  std::int64_t smallest_bytes = std::int64_t{1} << 20;
  // Whether the node then has one copy of the parameters, instead of one per rank: for programs in
  // which nothing but the optimizer changes them, since whatever one rank writes into its
  // parameters is in all of theirs (see ParameterArena::share_parameters).
  bool one_copy = false;
};

// Whether ranks of a node that can share memory share the steps of an optimizer over parameters of
// so many bytes. One that needs whole parameters (FlatOptimizer::is_layerwise) is never shared.
[[nodiscard]] bool is_worth_sharing(const FlatOptimizer& optimizer, std::int64_t parameter_bytes,
                                    const StepSharing& sharing);

// How a step uses gradients on a device, told where they are, so that nobody waits to know it.
// Undefined: as they are.
struct GradientUse {
  torch::Tensor factor;    // one float64, by which they are multiplied for the step
  torch::Tensor left_out;  // one int32: not 0 leaves parameters and state as they are
};

// A fused optimizer over an arena, with its state in buffers of the same layout. It works bucket by
// bucket, so that a bucket whose gradients have arrived is updated while later ones are still on
// the wire; parameter by parameter where the optimizer needs whole ones (a bucket has all of each),
// and biases and batch norm's parameters, those of one dimension or none, apart where it treats
// them in another way. Parameters of float32 or float64. Its state is laid out by the arena's plan:
// Error when that has changed since (see ReducerOptions::rebuild_buckets).
//
// What takes no part in a step (ParameterArena::takes_part: frozen parameters, and those that no
// rank has used) stays as it is, with its state; its steps are counted apart, as in torch::optim.
//
// A step: update() of every bucket, in any order, then finish().
class ArenaOptimizer {
 public:
  // A view of one parameter's part of the state, named "<parameter>.<state>", for example
  // "conv1.weight.exp_avg".
  struct NamedState {
    std::string name;
    torch::Tensor tensor;
  };

  ArenaOptimizer(std::shared_ptr<ParameterArena> arena,
                 std::shared_ptr<const FlatOptimizer> optimizer);
  // Where the ranks of a node share memory, in which the parameters are, and it is worth it
  // (is_worth_sharing), they share its steps: each rank updates its part of every bucket, bit for
  // bit as it would alone, for all of the node, and the state is there once per node instead of
  // once per rank. The arena's parameters move for it. Collective. The ranks then make the same
  // calls in the same order, and a rank's first update() of a step waits for the backward passes of
  // all ranks of its node.
  ArenaOptimizer(const Communicator& communicator, const std::shared_ptr<ParameterArena>& arena,
                 std::shared_ptr<const FlatOptimizer> optimizer, const StepSharing& sharing);
  ArenaOptimizer(ArenaOptimizer&&) noexcept;
  ArenaOptimizer& operator=(ArenaOptimizer&&) noexcept;
  ~ArenaOptimizer();

  // One step for one bucket; `step` counts from 1. `use`: on devices alone.
  void update(std::size_t bucket, double learning_rate, std::int64_t step,
              const GradientUse& use = {});
  // Puts what step `step` takes from its rate and number onto the device, where a CUDA graph of
  // updates reads it: before the graph is recorded or replayed. Follows another step.
  void prepare(double learning_rate, std::int64_t step);
  // Blocks until the parameters are complete, where a node's ranks share steps; nothing otherwise.
  void finish();

  // Of optimizers that average (FlatOptimizer::for_use; of all others nothing happens): the
  // parameters become those to use the network with, until to_training() gives back the very bits
  // that are trained. Between two steps. Costs a copy of the parameters meanwhile. Collective over
  // the node.
  void to_evaluation();
  void to_training();
  // Part of a checkpoint of an optimizer that averages.
  [[nodiscard]] const RateHistory& rate_history() const { return rates_; }
  void set_rate_history(const RateHistory& rates) {
    rates_ = rates;
    noted_step_ = 0;
  }

  // For checkpoints: to be read, between finish() and the next step's gradients.
  [[nodiscard]] std::vector<NamedState> named_state() const;
  // How many steps each parameter, in the order of the arena's plan, took no part in: part of a
  // checkpoint where parameters are frozen or unused in some steps, zeros otherwise.
  [[nodiscard]] std::vector<std::int64_t> skipped_steps() const;
  void set_skipped_steps(std::span<const std::int64_t> counts);
  // Every rank's state becomes rank 0's. Collective.
  void broadcast_state(const Communicator& communicator) const;

  // Whether the ranks of this node share steps.
  [[nodiscard]] bool is_shared() const { return shared_ != nullptr; }

  [[nodiscard]] const FlatOptimizer& algorithm() const { return *optimizer_; }

 private:
  template <typename T>
  void update_typed(std::size_t bucket, std::int64_t step);
  void update_on_device(std::size_t bucket, std::int64_t step, const GradientUse& use);
  void begin_step();

  template <typename T>
  [[nodiscard]] FlatSlice<T> slice_of(std::size_t bucket, const parallel::BucketRun& run) const;
  void require_trainable() const;
  void require_same_plan() const;
  void allocate_state();
  // Calls change(the bucket, this rank's part of its parameters, the tensors' first element) and
  // shows the others what it has changed.
  template <typename Change>
  void change_parameters(const Change& change);
  void share_steps(const Communicator& communicator, ParameterArena& arena, bool one_copy);

  std::shared_ptr<ParameterArena> arena_;
  std::int64_t version_;  // of the arena's plan
  std::shared_ptr<const FlatOptimizer> optimizer_;
  std::vector<std::vector<torch::Tensor>> state_;  // by state, by bucket
  std::vector<torch::Tensor> trained_;  // by bucket, this rank's part: after to_evaluation()
  RateHistory rates_;
  std::int64_t noted_step_ = 0;  // the last one in it
  StepRate rate_ = 0;            // of the step that is being made
  std::unique_ptr<parallel::ParameterGroups> groups_;
  std::unique_ptr<parallel::TensorSteps> on_device_;  // none: the parameters are the host's
  std::unique_ptr<parallel::SharedStep> shared_;
  bool is_in_step_ = false;
};

}  // namespace kolo
