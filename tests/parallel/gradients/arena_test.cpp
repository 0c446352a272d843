
#include <vector>

#include <gmock/gmock.h>
#include <torch/optim/adam.h>

#include "kolo/base/error.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/gradient_reducer.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

constexpr std::int64_t batch = 4;  // samples per rank

// Buckets so small that every parameter has one of its own, and one that holds all.
const BucketLimits tiny{1, 1}, large{1 << 20, 1 << 20};

RANK_TEST(Arena, TensorsOfEveryKind) {
  const int ranks = communicator.size();
  for (const DataType type : all_data_types) {
    const auto options = torch::TensorOptions(scalar_type_of(type));
    const std::vector<torch::Tensor> tensors = {
        torch::ones({3, 4}, options), torch::ones({}, options), torch::ones({0, 5}, options),
        torch::ones({6, 4}, options).t(),
        torch::ones({8, 8}, options).slice(0, 0, 8, 3).slice(1, 1, 7, 2)};
    for (const torch::Tensor& tensor : tensors) {
      const double sum = type == DataType::boolean ? 1 : ranks;
      all_reduce(communicator, tensor);
      EXPECT_TRUE(tensor.to(torch::kDouble).eq(sum).all().item<bool>())
          << name_of(type) << " " << tensor.sizes();
      tensor.fill_(communicator.rank() == ranks - 1 ? 1 : 0);
      broadcast(communicator, tensor, ranks - 1);
      EXPECT_TRUE(tensor.to(torch::kDouble).eq(1).all().item<bool>());
      const torch::Tensor gathered = all_gather(communicator, tensor);
      EXPECT_EQ(gathered.numel(), ranks * tensor.numel());
      EXPECT_EQ(gathered.size(0), ranks * (tensor.dim() == 0 ? 1 : tensor.size(0)));
      const torch::Tensor scattered = reduce_scatter(communicator, gathered, ReduceOp::max);
      EXPECT_TRUE(scattered.equal(tensor.dim() == 0 ? tensor.reshape({1}) : tensor))
          << name_of(type);
    }
  }
  EXPECT_TRUE(says(
      message_of<Error>([&] { all_reduce(communicator, torch::zeros({2}, torch::kComplexFloat)); }),
      {"convert to one of"}));
}

RANK_TEST(Arena, ArenaKeepsValuesAndBroadcasts) {
  SmallNetwork network(7, 10 + communicator.rank());
  const SmallNetwork of_root(7, 10), untouched(7, 10 + communicator.rank());
  network.calls.fill_(communicator.rank());
  ParameterArena arena(communicator, network, tiny);
  EXPECT_EQ(arena.buckets(), 4U);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(network.parameters()[i].equal(untouched.parameters()[i]));
  arena.broadcast_parameters(communicator);
  broadcast_outside_arena(communicator, network);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(network.parameters()[i].equal(of_root.parameters()[i]));
  EXPECT_TRUE(network.calls.eq(0).all().item<bool>());
}

RANK_TEST(Arena, FrozenParametersAreBroadcastAndLeftAlone) {
  SmallNetwork network(7, 10 + communicator.rank());
  const SmallNetwork of_root(7, 10);
  network.first->weight.set_requires_grad(false);
  ParameterArena arena(communicator, network);
  EXPECT_EQ(arena.parameters().size(), 3U);
  broadcast_outside_arena(communicator, network);
  EXPECT_TRUE(network.first->weight.equal(of_root.first->weight));
}

torch::Tensor batch_of(const Communicator& communicator, std::int64_t step,
                       torch::ScalarType type = torch::kFloat) {
  const auto begin = (step * communicator.size() + communicator.rank()) * batch;
  return samples(begin, begin + batch, type);
}

RANK_TEST(Arena, GradientsEqualOneRanksOnTheUnion) {
  for (const bool overlap : {true, false}) {
    for (const BucketLimits& limits : {tiny, large}) {
      SmallNetwork network, reference;
      const auto arena = std::make_shared<ParameterArena>(communicator, network, limits);
      GradientReducer reducer(communicator, arena, {.overlap = overlap});
      for (std::int64_t step = 0; step < 3; ++step) {
        if (step != 1)
          reducer.clear_gradients();  // step 1 adds to zeroed views, as zero_grad() of some
                                      // versions leaves them
        else
          for (auto& parameter : network.parameters()) parameter.mutable_grad().zero_();
        mean_loss(network, batch_of(communicator, step)).backward();
        reducer.finish();
        for (auto& parameter : reference.parameters()) parameter.mutable_grad() = torch::Tensor();
        const auto begin = step * communicator.size() * batch;
        mean_loss(reference, samples(begin, begin + communicator.size() * batch)).backward();
        for (std::size_t i = 0; i < 4; ++i) {
          EXPECT_TRUE(
              network.parameters()[i].grad().allclose(reference.parameters()[i].grad(), 1e-6, 1e-6))
              << "parameter " << i;
        }
      }
      EXPECT_EQ(reducer.statistics().steps, 3);
      EXPECT_EQ(reducer.statistics().bytes, 3 * arena->plan().total_bytes);
    }
  }
}

RANK_TEST(Arena, TrainingEqualsTorchOptimOnTheUnion) {
  SmallNetwork network, reference;
  network.to(torch::kDouble);
  reference.to(torch::kDouble);
  const auto arena = std::make_shared<ParameterArena>(communicator, network, tiny);
  GradientReducer reducer(communicator, arena);
  ArenaOptimizer optimizer(arena, make_adam({.weight_decay = .01}));
  torch::optim::Adam peer(reference.parameters(), torch::optim::AdamOptions(.02).weight_decay(.01));
  for (std::int64_t step = 0; step < 10; ++step) {
    reducer.clear_gradients();
    mean_loss(network, batch_of(communicator, step, torch::kDouble)).backward();
    for (std::size_t bucket = 0; bucket < arena->buckets(); ++bucket) {
      reducer.wait(bucket);
      optimizer.update(bucket, .02, step + 1);
    }
    reducer.finish();
    peer.zero_grad();
    const auto begin = step * communicator.size() * batch;
    mean_loss(reference, samples(begin, begin + communicator.size() * batch, torch::kDouble))
        .backward();
    peer.step();
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(network.parameters()[i].allclose(reference.parameters()[i], 1e-10, 1e-12))
        << "parameter " << i;
  }
  EXPECT_EQ(optimizer.named_state().front().name, "first.weight.exp_avg");
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
      mean_loss(*each, batch_of(communicator, step)).backward();
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

RANK_TEST(Arena, AMissingGradientIsNamed) {
  SmallNetwork network;
  const auto arena = std::make_shared<ParameterArena>(communicator, network, tiny);
  GradientReducer reducer(communicator, arena);
  torch::tanh(network.first(batch_of(communicator, 0))).sum().backward();
  EXPECT_TRUE(says(message_of<Error>([&] { reducer.finish(); }),
                   {"no gradient to second.weight, second.bias;",
                    "rank " + std::to_string(communicator.rank())}));
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
