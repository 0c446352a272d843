#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/parameter_arena.h"

namespace kolo {

// A fused optimizer over an arena, with its state in buffers of the same layout. It works bucket by
// bucket, so that a bucket whose gradients have arrived is updated while later ones are still on
// the wire; parameter by parameter where the optimizer needs whole ones (a bucket has all of each),
// and biases and batch norm's parameters, those of one dimension or none, apart where it treats
// them in another way. Parameters of float32 or float64. Its state is laid out by the arena's plan:
// Error when that has changed since (see ReducerOptions::rebuild_buckets).
class ArenaOptimizer {
 public:
  // A view of one parameter's part of the state, named "<parameter>.<state>", for example
  // "conv1.weight.exp_avg".
  struct NamedState {
    std::string name;
    torch::Tensor tensor;
  };

  ArenaOptimizer(std::shared_ptr<const ParameterArena> arena,
                 std::shared_ptr<const FlatOptimizer> optimizer);

  // One step for one bucket; `step` counts from 1.
  void update(std::size_t bucket, double learning_rate, std::int64_t step);

  // For checkpoints: to be read, or copied into.
  [[nodiscard]] std::vector<NamedState> named_state() const;

  [[nodiscard]] const FlatOptimizer& algorithm() const { return *optimizer_; }

 private:
  template <typename T>
  void update_typed(std::size_t bucket, double learning_rate, std::int64_t step);

  void require_same_plan() const;

  std::shared_ptr<const ParameterArena> arena_;
  std::int64_t version_;  // of the arena's plan
  std::shared_ptr<const FlatOptimizer> optimizer_;
  std::vector<std::vector<torch::Tensor>> state_;  // by state, by bucket
};

}  // namespace kolo
