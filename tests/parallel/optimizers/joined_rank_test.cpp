#include <algorithm>
#include <functional>
#include <memory>
#include <string_view>

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "kolo/base/error.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/checks.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/object_collectives.h"
#include "kolo/parallel/sharded_optimizer.h"
#include "kolo/parallel/sync_batch_norm.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

// Reducers, optimizers and collectives while the last rank has joined.
namespace kolo::testing {

namespace {

bool has_data(const Communicator& communicator) {
  return communicator.size() == 1 || communicator.rank() + 1 < communicator.size();
}

// Expects an Error on the ranks with data while the last one has joined.
void expect_refusal(const Communicator& world, const std::function<void()>& action,
                    std::string_view words) {
  if (has_data(world)) {
    EXPECT_TRUE(says(message_of<Error>(action), {words}));
  }
  (void)world.join();
}

// A step that needs the joined rank is an Error before any parameter changes.
RANK_TEST(JoinedRanks, AShardedOptimizerRefuses) {
  if (communicator.size() == 1) return;
  const auto world = communicator.checked();
  SmallNetwork network;
  ShardedOptimizer optimizer(world, network, make_adam({}), {.learning_rate = .1});
  const auto step = [&] {
    optimizer.zero_grad();
    mean_loss(network, samples(world.rank(), world.rank() + 3)).backward();
    optimizer.step();
  };
  step();
  const auto before = copies_of(network);
  expect_refusal(world, step, "a sharded optimizer can't do without a rank that has joined");
  expect_parameters(network, before);
}

RANK_TEST(JoinedRanks, ASharedStepRefuses) {
  if (communicator.topology().nodes == communicator.size() ||
      !communicator.capabilities().shared_memory)
    return;
  const auto world = communicator.checked();
  SmallNetwork network;
  const auto arena = std::make_shared<ParameterArena>(world, network);
  ArenaOptimizer optimizer(world, arena, make_adam({}), {.enabled = true, .smallest_bytes = 0});
  ASSERT_TRUE(optimizer.is_shared());
  GradientReducer reducer(world, arena);
  const auto before = copies_of(network);
  const auto step = [&] {
    mean_loss(network, samples(world.rank(), world.rank() + 3)).backward();
    reducer.finish();
    optimizer.update(0, .1, 1);
    optimizer.finish();
  };
  expect_refusal(world, step, "a shared step can't do without a rank that has joined");
  expect_parameters(network, before);
}

RANK_TEST(JoinedRanks, RowsComeFromActiveRanks) {
  const auto world = communicator.checked();
  if (has_data(world)) {
    const int active = std::max(1, world.size() - 1);
    const auto mine = torch::full({world.rank() + 1, 3}, world.rank(), torch::kFloat);
    const auto all = all_gather(world, mine);
    EXPECT_EQ(all.size(0), active * (active + 1) / 2);
    EXPECT_EQ(all.sum().item<float>(), static_cast<float>([&] {
                int sum = 0;
                for (int rank = 0; rank < active; ++rank) sum += 3 * rank * (rank + 1);
                return sum;
              }()));
    // A row for each rank; the joined one's are lost.
    const auto received =
        all_to_all(world, torch::arange(world.size(), torch::kFloat).view({-1, 1}) + world.rank());
    EXPECT_EQ(received.tensor.size(0), active);
    for (int rank = 0; rank < active; ++rank)
      EXPECT_EQ(received.tensor[rank].item<float>(), static_cast<float>(world.rank() + rank));
    const auto texts = all_gather_bytes(world, "here");
    EXPECT_EQ(texts.back(), world.size() == 1 ? "here" : "");
  }
  (void)world.join();
}

RANK_TEST(JoinedRanks, ReplicasAreComparedWithoutThem) {
  const auto world = communicator.checked();
  SmallNetwork network;
  const ReplicaCheck check(world, ParameterArena(world, network), 1);
  const bool differ = world.size() > 3;
  if (has_data(world)) {
    EXPECT_NO_THROW(check.compare("now"));
    if (differ) {
      if (world.rank() == 1) network.parameters()[0].data()[0][0] += 1;
      EXPECT_TRUE(says(message_of<Error>([&] { check.compare("now"); }),
                       {"first.weight (rank 1). rank 1 is unlike the majority"}));
    }
  }
  (void)world.join();
}

// The layers' communicator is a set of the ranks.
RANK_TEST(JoinedRanks, BatchNormIsOverActiveRanks) {
  if (communicator.size() > 1 && !communicator.capabilities().concurrent) return;
  const auto world = communicator.checked();
  torch::manual_seed(1);  // for variances that are large beside epsilon
  torch::nn::Sequential network{torch::nn::Linear(5, 4), torch::nn::BatchNorm1d(4)};
  convert_sync_batch_norm(world, *network);
  network->to(torch::kDouble);
  if (has_data(world)) {
    const int active = std::max(1, world.size() - 1);
    const auto output =
        network->forward(samples(3 * world.rank(), 3 * world.rank() + 3, torch::kDouble));
    output.pow(3).sum().backward();
    const auto sums = all_reduced(world, output.detach().sum(0));
    const auto squares = all_reduced(world, output.detach().square().sum(0));
    EXPECT_LT(sums.abs().max().item<double>(), 1e-9);
    EXPECT_NEAR(squares.mean().item<double>(), 3 * active, .1 * active);
  }
  (void)world.join();
}

// PowerSGD forgets factors and errors when some ranks have missed steps.
RANK_TEST(JoinedRanks, PowerSgdBeginsAnewAfterAJoin) {
  const auto world = communicator.checked();
  SmallNetwork network(40), reference(40);
  const auto hook = [] { return power_sgd({.rank = 1, .start_step = 0}); };
  GradientReducer reducer(world, network, {.rebuild_buckets = false, .hook = hook()});
  const auto average = [&](GradientReducer& with, SmallNetwork& of, int step) {
    with.clear_gradients();
    mean_loss(of, samples(world.rank() + 10 * step, world.rank() + 10 * step + 3)).backward();
    with.finish();
  };
  average(reducer, network, 0);
  if (has_data(world) && world.size() > 1) average(reducer, network, 1);
  (void)world.join();
  if (world.size() == 1) return;
  average(reducer, network, 2);
  GradientReducer fresh(world, reference, {.rebuild_buckets = false, .hook = hook()});
  average(fresh, reference, 2);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(network.parameters()[i].grad().equal(reference.parameters()[i].grad())) << i;
}

// An average may be representable where the sum is not.
RANK_TEST(JoinedRanks, AveragesDoNotOverflow) {
  SmallNetwork network;
  for (const bool with_float16 : {true, false}) {
    GradientReducer reducer(
        communicator, network,
        {.hook = with_float16 ? float16_compression() : bfloat16_compression()});
    const double large = with_float16 ? 40000 : 2.6584559915698317e+38;  // 200 * 2^120
    reducer.clear_gradients();
    torch::Tensor loss = torch::zeros({});
    for (const auto& parameter : network.parameters()) loss = loss + (parameter * large).sum();
    loss.backward();
    reducer.finish();
    for (const auto& parameter : network.parameters())
      EXPECT_TRUE(parameter.grad().eq(large).all().item<bool>()) << parameter.grad();
  }
  for (const auto type : {torch::kHalf, torch::kBFloat16}) {
    const auto values = torch::full({1000}, 40960, type);
    const double fraction = 1.0 / communicator.size();
    EXPECT_TRUE(
        all_reduced(communicator, values, {.postscale = fraction}).eq(values).all().item<bool>());
    EXPECT_TRUE(
        all_reduced(communicator, values, {.prescale = fraction}).eq(values).all().item<bool>());
    const auto whole = torch::full({7 * communicator.size()}, 40960, type);
    const auto part = reduce_scatter(communicator, whole, ReduceOptions{.postscale = fraction});
    EXPECT_TRUE(part.eq(40960).all().item<bool>());
  }
  EXPECT_EQ(average(communicator, torch::tensor(3e38F), 64).item<float>(), 3e38F);
}

}  // namespace

}  // namespace kolo::testing
