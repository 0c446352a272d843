#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/gradient_reducer.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

const BucketLimits tiny{1, 1};  // every parameter has a bucket of its own

RANK_TEST(Arena, KeepsValuesAndBroadcasts) {
  for (const bool is_frozen : {false, true}) {
    SmallNetwork network(7, 10 + communicator.rank());
    const SmallNetwork of_root(7, 10), untouched(7, 10 + communicator.rank());
    network.first->weight.set_requires_grad(!is_frozen);
    network.calls.fill_(communicator.rank());
    ParameterArena arena(communicator, network, tiny);
    EXPECT_EQ(arena.buckets(), is_frozen ? 3U : 4U);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_TRUE(network.parameters()[i].equal(untouched.parameters()[i]));
    arena.broadcast_parameters(communicator);
    broadcast_outside_arena(communicator, network);
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_TRUE(network.parameters()[i].equal(of_root.parameters()[i]));
    EXPECT_TRUE(network.calls.eq(0).all().item<bool>());
  }
}

// A parameter whose memory is dense but transposed keeps its strides, and so does its gradient.
RANK_TEST(Arena, ATransposedParameterTrainsAlike) {
  SmallNetwork network, reference;
  network.first->weight.set_data(network.first->weight.t().contiguous().t());
  const auto strides = network.first->weight.strides().vec();
  for (SmallNetwork* const each : {&network, &reference}) {
    const auto arena = std::make_shared<ParameterArena>(communicator, *each, tiny);
    GradientReducer reducer(communicator, arena);
    ArenaOptimizer optimizer(arena, make_adam({}));
    for (std::int64_t step = 0; step < 3; ++step) {
      reducer.clear_gradients();
      const auto begin = (step * communicator.size() + communicator.rank()) * 4;
      mean_loss(*each, samples(begin, begin + 4)).backward();
      reducer.finish();
      for (std::size_t bucket = 0; bucket < arena->buckets(); ++bucket)
        optimizer.update(bucket, .02, step + 1);
    }
    EXPECT_EQ(optimizer.named_state().front().tensor.sizes(), each->first->weight.sizes());
  }
  EXPECT_EQ(network.first->weight.strides(), strides);
  EXPECT_EQ(network.first->weight.grad().strides(), strides);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(network.parameters()[i].allclose(reference.parameters()[i], 1e-5, 1e-7))
        << "parameter " << i;
  }
}

RANK_TEST(Arena, DifferentModelsAreNamed) {
  if (communicator.size() == 1) return;
  SmallNetwork network(communicator.rank() == communicator.size() - 1 ? 8 : 7);
  const auto last = std::to_string(communicator.size() - 1);
  EXPECT_TRUE(says(message_of<Error>([&] { ParameterArena arena(communicator, network); }),
                   {"rank 0 has first.weight float32 [7, 5], rank " + last +
                    " has first.weight float32 [8, 5]"}));
}

}  // namespace

}  // namespace kolo::testing
