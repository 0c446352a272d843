#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <torch/nn/module.h>

#include "kolo/comm/communicator.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/gradient_reducer.h"
#include "kolo/parallel/parameter_arena.h"
#include "kolo/parallel/sharded_arena_optimizer.h"

namespace kolo {

struct ShardedOptimizerOptions {
  double learning_rate = 1e-3;
  BucketLimits buckets;
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
// The module's parameters, float32 or float64 in CPU memory, move into an arena. One backward() a
// step, in which every trainable parameter takes part. The ranks make the same calls in the same
// order. After backward(), gradients are averaged only in this rank's part: read them nowhere else
// than through clip_gradients().
class ShardedOptimizer {
 public:
  // Collective; Error on every rank when the ranks' parameters differ.
  ShardedOptimizer(Communicator communicator, const torch::nn::Module& module,
                   std::shared_ptr<const FlatOptimizer> algorithm,
                   const ShardedOptimizerOptions& options = {});

  void zero_grad();

  // Between backward() and step(): scales the averaged gradients to a global norm of at most
  // maximum_norm; returns the norm before (see ShardedArenaOptimizer::clip_gradients).
  double clip_gradients(double maximum_norm);

  // Blocks until all parameters are updated, those of the other ranks' parts too.
  void step();

  [[nodiscard]] double learning_rate() const { return learning_rate_; }
  void set_learning_rate(double rate) { learning_rate_ = rate; }  // the same on all ranks
  [[nodiscard]] std::int64_t steps() const { return steps_; }

  // For checkpoints; see ShardedArenaOptimizer. `steps` is what steps() was when the state was
  // gathered.
  [[nodiscard]] std::vector<ShardedArenaOptimizer::NamedState> gather_state() const;
  void load_state(std::span<const ShardedArenaOptimizer::NamedState> whole, std::int64_t steps);
  [[nodiscard]] std::int64_t state_bytes() const { return optimizer_.state_bytes(); }

  // What the gradients cost; hook_bytes counts them as sent.
  [[nodiscard]] ReducerStatistics statistics() const { return reducer_.statistics(); }

  [[nodiscard]] std::shared_ptr<const ParameterArena> arena() const { return arena_; }

 private:
  void finish_backward();

  std::shared_ptr<ParameterArena> arena_;
  ShardedArenaOptimizer optimizer_;
  GradientReducer reducer_;
  double learning_rate_;
  std::int64_t steps_ = 0;
  bool is_reduced_ = false;  // the gradients of this step, all of them
};

}  // namespace kolo
