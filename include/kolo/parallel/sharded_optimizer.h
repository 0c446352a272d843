#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/gradient_reducer.h"
#include "kolo/parallel/parameter_arena.h"
#include "kolo/parallel/sharded_arena_optimizer.h"
#include "kolo/parallel/trained_modules.h"

namespace kolo {

// Options of a sharded optimizer's parameter group, for LibTorch's schedulers.
class ShardedGroupOptions : public torch::optim::OptimizerCloneableOptions<ShardedGroupOptions> {
 public:
  explicit ShardedGroupOptions(double learning_rate) : learning_rate_(learning_rate) {}
  [[nodiscard]] double get_lr() const override { return learning_rate_; }
  void set_lr(const double rate) override { learning_rate_ = rate; }

 private:
  double learning_rate_;
};

struct ShardedOptimizerOptions {
  double learning_rate = 1e-3;
  BucketLimits buckets;
  bool unused_parameters = false;    // see ReducerOptions
  bool broadcast_parameters = true;  // at the start, rank 0's; buffers and frozen ones as well
};

// Data-parallel training of a LibTorch module with the optimizer's state divided among the ranks
// (ZeRO, stage 1; see ShardedArenaOptimizer). In a loop written for torch::optim it takes the
// optimizer's place:
//
//   kolo::ShardedOptimizer optimizer(communicator, *network, kolo::make_adam({}));
//   for (...) {
//     optimizer.zero_grad();
//     loss.backward();   // gradients travel meanwhile
//     optimizer.step();
//   }
//
// The module's parameters, float32 or float64 in CPU memory, move into an arena. The module must
// outlive this; several, and tensors of none, are TrainedModules. One backward() a step, and any
// number more in the scope of no_sync(). The ranks make the same calls in the same order, with the
// same learning rates (Error otherwise). Gradients are averaged only in this rank's part: grad()
// stays a placeholder from backward() to zero_grad(), and whoever reads it gets an Error; clip with
// clip_gradients().
//
// It is a torch::optim::Optimizer, for schedulers and functions that take one: it has one group of
// parameters, with ShardedGroupOptions. The state is not in state(), but in gather_state().
class ShardedOptimizer : public torch::optim::Optimizer {
 public:
  // Collective; Error on every rank when the ranks' parameters differ. InputError for optimizers
  // that need whole parameters or average (FlatOptimizer::for_use).
  ShardedOptimizer(const Communicator& communicator, const TrainedModules& modules,
                   std::shared_ptr<const FlatOptimizer> algorithm,
                   const ShardedOptimizerOptions& options = {});

  // Undefines all gradients, or makes them zero. After finish() it discards the
  // averages, on all ranks; step() changes nothing then.
  void zero_grad(bool set_to_none = true) { reducer_.clear_gradients(set_to_none); }

  // While the result lives, backward() only adds to this rank's gradients.
  [[nodiscard]] GradientReducer::NoSync no_sync() { return reducer_.no_sync(); }

  // Waits for the averages, to clip or discard them between backward() and step(), which takes them
  // as they are.
  void finish();
  // finish(), and scales the averaged gradients to a global norm of at most maximum_norm; returns
  // the norm before (see BucketOptimizer::clip_gradients).
  double clip_gradients(double maximum_norm);

  // Blocks until all parameters are updated, those of the other ranks' parts too. With a closure,
  // which calls zero_grad() and backward() and returns the loss, that is called first, once; the
  // result is the average of the ranks' losses.
  torch::Tensor step(LossClosure closure = nullptr) override;

  [[nodiscard]] std::int64_t steps() const { return steps_; }

  // The whole state on every rank, for checkpoints: "<parameter>.<state>", and
  // "<parameter>.skipped_steps" (int64, one element) for parameters that took no part in some
  // steps. It suits any number of ranks, and unsharded training. Collective.
  [[nodiscard]] std::vector<NamedTensor> gather_state() const;
  // Takes what gather_state() gave after `steps` steps(), given on all ranks; rank 0's counts.
  // Error, with nothing changed, for names that are missing, too many, or have another shape or
  // type. Collective.
  void load_state(std::span<const NamedTensor> whole, std::int64_t steps);

  // Cost of the gradients; hook_bytes counts them as sent.
  [[nodiscard]] ReducerStatistics statistics() const { return reducer_.statistics(); }

  [[nodiscard]] std::shared_ptr<const ParameterArena> arena() const { return arena_; }

  // An Error that says what to do: the state is divided among the ranks, so saving it takes them
  // all (gather_state()), and one archive of one rank can't hold it.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  Communicator communicator_;
  TrainedModules modules_;
  std::shared_ptr<ParameterArena> arena_;
  ShardedArenaOptimizer optimizer_;
  GradientReducer reducer_;
  std::int64_t steps_ = 0;
};

}  // namespace kolo
