#pragma once

#include <memory>

#include "kolo/parallel/bucket_optimizer.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/parameter_arena.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/small_network.h"

namespace kolo::testing {

inline constexpr std::int64_t hidden = 50;

// One bucket a parameter, some shorter than 16 elements per rank, and one bucket for all.
inline const BucketLimits tiny{1, 1}, large{1 << 20, 1 << 20};

// A replica, its arena, and the work of a reducer for it.
struct Replica {
  Replica(const Communicator& ranks, const BucketLimits& limits, torch::ScalarType type,
          std::int64_t width = hidden)
      : communicator(ranks), network(width) {
    network.to(type);
    arena = std::make_shared<ParameterArena>(ranks, network, limits);
  }

  // This rank's own gradients, in the arena; the gaps between them are zeros.
  void backward(std::int64_t step) {
    const auto begin = (step * communicator.size() + communicator.rank()) * 4;
    network.zero_grad();
    mean_loss(network, samples(begin, begin + 4, network.first->weight.scalar_type())).backward();
    const torch::NoGradGuard no_gradient;
    for (std::size_t index = 0; index < arena->parameters().size(); ++index)
      arena->gradient_view(index).copy_(arena->parameters()[index].grad());
  }

  void average(GradientHook& hook) const {
    for (std::size_t index = 0; index < arena->buckets(); ++index) {
      GradientBucket bucket;
      bucket.index = index;
      bucket.flat = arena->flat_gradients(index);
      hook.average(communicator, bucket);
    }
  }

  void all_reduce_gradients() const {
    for (std::size_t index = 0; index < arena->buckets(); ++index)
      all_reduce(communicator, arena->flat_gradients(index), ReduceOp::average);
  }

  Communicator communicator;
  SmallNetwork network;
  std::shared_ptr<ParameterArena> arena;
};

template <typename Optimizer>
void update_all(Optimizer& optimizer, const ParameterArena& arena, std::int64_t step) {
  for (std::size_t bucket = 0; bucket < arena.buckets(); ++bucket)
    optimizer.update(bucket, .02, step);
}

// Expects equal bits where no tolerance is given.
inline void expect_state(const BucketOptimizer& optimizer, const BucketOptimizer& reference,
                         double tolerance = 0) {
  const auto found = optimizer.named_state(), expected = reference.named_state();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t index = 0; index < found.size(); ++index) {
    EXPECT_EQ(found[index].name, expected[index].name);
    EXPECT_TRUE(found[index].tensor.allclose(expected[index].tensor, tolerance, tolerance))
        << found[index].name;
  }
}

}  // namespace kolo::testing
