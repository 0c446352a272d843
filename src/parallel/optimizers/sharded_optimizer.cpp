#include "kolo/parallel/sharded_optimizer.h"

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

ShardedOptimizer::ShardedOptimizer(Communicator communicator, const torch::nn::Module& module,
                                   std::shared_ptr<const FlatOptimizer> algorithm,
                                   const ShardedOptimizerOptions& options)
    : arena_(std::make_shared<ParameterArena>(communicator, module, options.buckets)),
      optimizer_(communicator, arena_, std::move(algorithm)),
      reducer_(communicator, arena_,
               ReducerOptions{.rebuild_buckets = false, .hook = optimizer_.gradient_hook()}),
      learning_rate_(options.learning_rate) {
  if (!options.broadcast_parameters) return;
  arena_->broadcast_parameters(communicator);
  broadcast_outside_arena(communicator, module);
}

void ShardedOptimizer::zero_grad() {
  reducer_.clear_gradients();
}

double ShardedOptimizer::clip_gradients(double maximum_norm) {
  finish_backward();
  return optimizer_.clip_gradients(maximum_norm);
}

void ShardedOptimizer::step() {
  const std::int64_t step = steps_ + 1;
  for (std::size_t bucket = 0; bucket < arena_->buckets(); ++bucket) {
    if (!is_reduced_) reducer_.wait(bucket);
    optimizer_.update(bucket, learning_rate_, step);
  }
  finish_backward();
  optimizer_.finish();
  steps_ = step;
  is_reduced_ = false;
}

void ShardedOptimizer::finish_backward() {
  if (!is_reduced_) reducer_.finish();
  is_reduced_ = true;
}

std::vector<ShardedArenaOptimizer::NamedState> ShardedOptimizer::gather_state() const {
  return optimizer_.gather_state();
}

void ShardedOptimizer::load_state(std::span<const ShardedArenaOptimizer::NamedState> whole,
                                  std::int64_t steps) {
  if (steps < 0) {
    throw Error(
        fmt::format("parallel: an optimizer's state after {} steps; expected 0 or more", steps));
  }
  optimizer_.load_state(whole);
  steps_ = steps;
}

}  // namespace kolo
