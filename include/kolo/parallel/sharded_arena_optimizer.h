#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/gradient_hook.h"

namespace kolo {

namespace parallel {
class ParameterGroups;
class TensorSteps;
}  // namespace parallel

// A fused optimizer over an arena that keeps only this rank's part of the state: ZeRO, stage 1
// (Rajbhandari et al., SC20). Every bucket is cut into as many equal parts as there are ranks. A
// step reduces a rank's part of the gradients, updates its part of the parameters and gathers
// everybody's, which moves as many bytes as the all-reduce it takes the place of. What is left of a
// bucket, fewer than 16 elements per rank, every rank updates for itself.
//
// With the same order of reduction the parameters are, bit for bit, those of ArenaOptimizer; so are
// those that take no part in a step.
// Parameters of float32 or float64. The ranks make the same calls in the same order. One step:
//
//   backward, with gradient_hook() in the reducer
//   optional: wait for all buckets, clip_gradients()
//   for every bucket: wait for its gradients, update()
//   finish()
class ShardedArenaOptimizer {
 public:
  using NamedState = ArenaOptimizer::NamedState;

  // InputError for an optimizer that needs whole parameters (FlatOptimizer::is_layerwise): LARS and
  // LAMB.
  ShardedArenaOptimizer(const Communicator& communicator,
                        std::shared_ptr<const ParameterArena> arena,
                        std::shared_ptr<const FlatOptimizer> optimizer);
  // With groups of parameters: an algorithm each, of one kind with different options, and each
  // parameter's place among them, in the order of the arena's plan.
  ShardedArenaOptimizer(const Communicator& communicator,
                        std::shared_ptr<const ParameterArena> arena,
                        std::vector<std::shared_ptr<const FlatOptimizer>> algorithms,
                        std::vector<std::size_t> group_of);
  ShardedArenaOptimizer(ShardedArenaOptimizer&&) noexcept;
  ShardedArenaOptimizer& operator=(ShardedArenaOptimizer&&) noexcept;
  ~ShardedArenaOptimizer();

  // Averages only what this rank's update() reads: afterwards a bucket holds averages in this
  // rank's part and what is left over, and this rank's own gradients elsewhere. (Fully averaged
  // gradients will do as well, at twice the traffic.)
  [[nodiscard]] std::shared_ptr<GradientHook> gradient_hook() const;

  // The global norm of the averaged gradients, all parameters taken together. Collective: one
  // number travels. For all buckets at once, after their averaging and before the first update().
  [[nodiscard]] double gradient_norm() const;
  // Scales the gradients by maximum_norm / (norm + 1e-6) when that is below 1, as
  // torch::nn::utils::clip_grad_norm_ does; a norm that is not finite scales nothing. Returns the
  // norm. Collective.
  double clip_gradients(double maximum_norm) const;

  // One step for one bucket, of which the others' parts begin to be gathered; `step` counts from 1.
  // Error when the arena's buckets were rebuilt after this was made from it.
  void update(std::size_t bucket, double learning_rate, std::int64_t step);
  // With a rate for each group.
  void update(std::size_t bucket, std::span<const double> learning_rates, std::int64_t step);
  // Blocks until all parameters are here. Before the next forward pass.
  void finish();

  // As ArenaOptimizer has them; collective over all ranks. With groups, the first one's rates count
  // in the history.
  void to_evaluation();
  void to_training();
  [[nodiscard]] const RateHistory& rate_history() const { return rates_; }
  void set_rate_history(const RateHistory& rates) {
    rates_ = rates;
    noted_step_ = 0;
  }

  // The whole state, as ArenaOptimizer::named_state() gives it, and "<parameter>.skipped_steps"
  // (int64, one element) for parameters that took no part in some steps: a checkpoint of it suits
  // any number of ranks, and unsharded training. Collective; every rank gets a copy of its own, as
  // large as all ranks' state together. `only`: that rank alone; the others get nothing, and need
  // memory for a bucket.
  [[nodiscard]] std::vector<NamedState> gather_state(std::optional<int> only = {}) const;
  // The names and shapes of the whole state but for skipped steps, on the device `meta`: without
  // memory. Local.
  [[nodiscard]] std::vector<NamedState> state_shapes() const;
  // Keeps this rank's part of the whole state that `root` has (the others pass nothing), a bucket
  // at a time. Collective; where the root's has other names, shapes or types, Error there.
  // `skipped_steps`: of all parameters in the arena's order, on each rank.
  void scatter_state(std::span<const NamedState> whole, int root,
                     std::span<const std::int64_t> skipped_steps);
  // How many steps each parameter took no part in, as ArenaOptimizer has it.
  [[nodiscard]] std::vector<std::int64_t> skipped_steps() const;
  // Keeps this rank's part of a whole state. Not collective. Error, with nothing changed, for names
  // that are missing, too many, or have another shape or type.
  void load_state(std::span<const NamedState> whole);

  // Bytes of state that this rank holds.
  [[nodiscard]] std::int64_t state_bytes() const;

  // Of the first group.
  [[nodiscard]] const FlatOptimizer& algorithm() const { return *optimizer_; }

 private:
  void require_same_plan() const;
  [[nodiscard]] std::vector<std::vector<torch::Tensor>> flat_state_of(
      std::span<const NamedState> whole) const;
  void update_share(std::size_t bucket, std::span<const double> learning_rates, std::int64_t step);
  [[nodiscard]] std::vector<torch::Tensor> owned(const torch::Tensor& flat) const;
  void start_gathering(std::size_t bucket);
  // This rank's share of a bucket becomes `values`, laid out as its state is; gathered.
  void put_share(std::size_t bucket, const torch::Tensor& values);

  Communicator communicator_;  // the arena's
  std::shared_ptr<const ParameterArena> arena_;
  std::int64_t version_;  // of the arena's plan, which the state is laid out for
  std::shared_ptr<const FlatOptimizer> optimizer_;  // of the first group
  // By state, by bucket: this rank's part and, after it, what is left over.
  std::vector<std::vector<torch::Tensor>> state_;
  std::unique_ptr<parallel::ParameterGroups> groups_;
  std::unique_ptr<parallel::TensorSteps> steps_;
  std::vector<Work> gathers_;
  std::vector<torch::Tensor> trained_;  // by bucket, this rank's share: after to_evaluation()
  RateHistory rates_;
  std::int64_t noted_step_ = 0;  // the last one in it
  double share_ = 1;             // of the step that is being made, in the average
};

}  // namespace kolo
