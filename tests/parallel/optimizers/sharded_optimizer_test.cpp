#include <vector>

#include <gmock/gmock.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>

#include "kolo/base/error.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/sharded_arena_optimizer.h"
#include "kolo/parallel/sharded_optimizer.h"
#include "parallel/optimizers/replica.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

// Bit for bit where both reduce in the order of ranks; otherwise but for rounding.
void expect_equal(const Communicator& communicator, const torch::Tensor& a,
                  const torch::Tensor& b) {
  const bool one_order =
      communicator.capabilities().shared_memory && communicator.topology().nodes == 1;
  const bool is_equal =
      one_order || communicator.size() <= 2 ? a.equal(b) : a.allclose(b, 1e-6, 1e-6);
  EXPECT_TRUE(is_equal) << (a - b).abs().max();
}

void expect_same_training(const Communicator& communicator, const BucketLimits& limits,
                          torch::ScalarType type,
                          const std::shared_ptr<const FlatOptimizer>& algorithm) {
  Replica sharded(communicator, limits, type), whole(communicator, limits, type);
  ShardedArenaOptimizer optimizer(communicator, sharded.arena, algorithm);
  ArenaOptimizer reference(whole.arena, algorithm);
  const auto hook = optimizer.gradient_hook();
  for (std::int64_t step = 0; step < 6; ++step) {
    sharded.backward(step);
    sharded.average(*hook);
    whole.backward(step);
    whole.all_reduce_gradients();
    update_all(optimizer, *sharded.arena, step + 1);
    optimizer.finish();
    update_all(reference, *whole.arena, step + 1);
  }
  for (std::size_t index = 0; index < sharded.arena->parameters().size(); ++index)
    expect_equal(communicator, sharded.arena->parameters()[index],
                 whole.arena->parameters()[index]);
  const auto gathered = optimizer.gather_state();
  const auto expected = reference.named_state();
  ASSERT_EQ(gathered.size(), expected.size());
  for (std::size_t index = 0; index < gathered.size(); ++index) {
    EXPECT_EQ(gathered[index].name, expected[index].name);
    expect_equal(communicator, gathered[index].tensor, expected[index].tensor);
  }
  EXPECT_EQ(hook->bytes_sent(),
            communicator.size() == 1 ? 0 : 6 * sharded.arena->plan().total_bytes);
}

RANK_TEST(ShardedOptimizer, ItTrainsLikeTheUnshardedOne) {
  const std::shared_ptr<const FlatOptimizer> adam = make_adam({.weight_decay = .01});
  const std::shared_ptr<const FlatOptimizer> momentum = make_sgd({.momentum = .9});
  const std::shared_ptr<const FlatOptimizer> plain = make_sgd({});
  expect_same_training(communicator, tiny, torch::kDouble, adam);
  expect_same_training(communicator, large, torch::kDouble, adam);
  expect_same_training(communicator, tiny, torch::kFloat, momentum);
  expect_same_training(communicator, large, torch::kFloat, plain);
  // Biases apart: parts that are cut both for ranks and between parameters.
  const std::shared_ptr<const FlatOptimizer> sparing =
      make_adam({.weight_decay = .1, .decoupled_decay = true, .decay_excludes_vectors = true});
  expect_same_training(communicator, tiny, torch::kFloat, sparing);
  expect_same_training(communicator, large, torch::kDouble, sparing);
  // A state that doesn't begin as zeros.
  expect_same_training(communicator, large, torch::kFloat, make_adagrad({}));
  expect_same_training(communicator, tiny, torch::kFloat, make_schedule_free_adamw({}));
}

RANK_TEST(ShardedOptimizer, LayerwiseOptimizersAreRefused) {
  Replica replica(communicator, tiny, torch::kFloat);
  EXPECT_TRUE(says(message_of<InputError>(
                       [&] { ShardedArenaOptimizer(communicator, replica.arena, make_lars({})); }),
                   {"lars can't be sharded"}));
}

RANK_TEST(ShardedOptimizer, OptimizersThatAverageAreOfTrainingSteps) {
  SmallNetwork network;
  EXPECT_TRUE(says(message_of<InputError>([&] {
                     ShardedOptimizer(
                         communicator, network,
                         std::shared_ptr<const FlatOptimizer>(make_schedule_free_sgd({})));
                   }),
                   {"schedule_free_sgd trains other parameters than those to use"}));
}

RANK_TEST(ShardedOptimizer, ARankHoldsItsPartOfTheState) {
  Replica replica(communicator, large, torch::kFloat);
  const ShardedArenaOptimizer optimizer(communicator, replica.arena, make_adam({}));
  const std::int64_t whole = 2 * replica.arena->plan().total_bytes;
  EXPECT_GE(optimizer.state_bytes(), whole / communicator.size());
  // What is left over is below 16 elements per rank, of two states.
  EXPECT_LE(optimizer.state_bytes(),
            whole / communicator.size() + 2 * 16 * 4 * communicator.size());
}

RANK_TEST(ShardedOptimizer, StateSurvivesACheckpoint) {
  Replica first(communicator, tiny, torch::kDouble);
  ShardedArenaOptimizer optimizer(communicator, first.arena, make_adam({}));
  const auto hook = optimizer.gradient_hook();
  const auto step_of = [&](Replica& replica, ShardedArenaOptimizer& of, std::int64_t step) {
    replica.backward(step);
    replica.average(*hook);
    update_all(of, *replica.arena, step + 1);
    of.finish();
  };
  step_of(first, optimizer, 0);
  // Resumed with other buckets, which are cut for the ranks elsewhere.
  Replica second(communicator, large, torch::kDouble);
  ShardedArenaOptimizer resumed(communicator, second.arena, make_adam({}));
  auto state = optimizer.gather_state();
  resumed.load_state(state);
  {
    const torch::NoGradGuard no_gradient;
    for (std::size_t index = 0; index < first.arena->parameters().size(); ++index)
      second.arena->parameters()[index].copy_(first.arena->parameters()[index]);
  }
  step_of(first, optimizer, 1);
  step_of(second, resumed, 1);
  for (std::size_t index = 0; index < first.arena->parameters().size(); ++index) {
    EXPECT_TRUE(
        first.arena->parameters()[index].allclose(second.arena->parameters()[index], 1e-12, 1e-14));
  }
  state.back().name = "other";
  EXPECT_TRUE(says(message_of<Error>([&] { resumed.load_state(state); }),
                   {"has no second.bias.exp_avg_sq"}));
}

RANK_TEST(ShardedOptimizer, ClippingEqualsClippingOfTheAverage) {
  Replica sharded(communicator, tiny, torch::kDouble), whole(communicator, tiny, torch::kDouble);
  ShardedArenaOptimizer optimizer(communicator, sharded.arena, make_sgd({}));
  ArenaOptimizer reference(whole.arena, make_sgd({}));
  const auto hook = optimizer.gradient_hook();
  for (const double maximum_norm : {0.1, 1e9}) {
    sharded.backward(0);
    sharded.average(*hook);
    whole.backward(0);
    whole.all_reduce_gradients();
    double squares = 0;
    for (std::size_t bucket = 0; bucket < whole.arena->buckets(); ++bucket)
      squares += whole.arena->flat_gradients(bucket).square().sum().item<double>();
    const double norm = std::sqrt(squares);
    const double factor = std::min(1.0, maximum_norm / (norm + 1e-6));
    for (std::size_t bucket = 0; bucket < whole.arena->buckets(); ++bucket)
      whole.arena->flat_gradients(bucket).mul_(factor);
    EXPECT_NEAR(optimizer.clip_gradients(maximum_norm), norm, 1e-12 * norm);
    update_all(optimizer, *sharded.arena, 1);
    optimizer.finish();
    update_all(reference, *whole.arena, 1);
    for (std::size_t index = 0; index < sharded.arena->parameters().size(); ++index) {
      EXPECT_TRUE(sharded.arena->parameters()[index].allclose(whole.arena->parameters()[index],
                                                              1e-12, 1e-14));
    }
  }
}

RANK_TEST(ShardedOptimizer, ItTakesAnOptimizersPlace) {
  SmallNetwork network(hidden, 1 + communicator.rank()), reference(hidden, 1);
  network.to(torch::kDouble);
  reference.to(torch::kDouble);
  ShardedOptimizer optimizer(communicator, network, make_adam({}), {.learning_rate = .02});
  torch::optim::Adam peer(reference.parameters(), torch::optim::AdamOptions(.02));
  for (std::int64_t step = 0; step < 8; ++step) {
    const auto count = std::int64_t{4} * communicator.size();
    const auto begin = step * count + communicator.rank() * 4;
    optimizer.zero_grad();
    mean_loss(network, samples(begin, begin + 4, torch::kDouble)).backward();
    peer.zero_grad();
    mean_loss(reference, samples(step * count, (step + 1) * count, torch::kDouble)).backward();
    if (step % 2 == 1) {
      const double norm = torch::nn::utils::clip_grad_norm_(reference.parameters(), .05);
      EXPECT_NEAR(optimizer.clip_gradients(.05), norm, 1e-6 * norm);
    }
    optimizer.step();
    peer.step();
  }
  EXPECT_EQ(optimizer.steps(), 8);
  EXPECT_EQ(optimizer.statistics().hook_bytes,
            communicator.size() == 1 ? 0 : 8 * optimizer.arena()->plan().total_bytes);
  for (std::size_t index = 0; index < 4; ++index) {
    EXPECT_TRUE(network.parameters()[index].allclose(reference.parameters()[index], 1e-6, 1e-7));
  }
}

RANK_TEST(ShardedOptimizer, ARebuiltArenaIsRefused) {
  Replica replica(communicator, tiny, torch::kFloat);
  ShardedArenaOptimizer optimizer(communicator, replica.arena, make_adam({}));
  ASSERT_TRUE(replica.arena->rebuild(communicator, std::vector<std::size_t>{2, 0, 3, 1}));
  EXPECT_TRUE(
      says(message_of<Error>([&] { optimizer.update(0, .1, 1); }), {"rebuilt after sharded"}));
}

RANK_TEST(ShardedOptimizer, AResumedRunGoesOnAlike) {
  SmallNetwork network(hidden), resumed(hidden);
  const auto backward = [&](SmallNetwork& of, std::int64_t step) {
    const auto begin = (step * communicator.size() + communicator.rank()) * 4;
    mean_loss(of, samples(begin, begin + 4)).backward();
  };
  ShardedOptimizer first(communicator, network, make_adam({}));
  for (std::int64_t step = 0; step < 3; ++step) {
    first.zero_grad();
    backward(network, step);
    first.step();
  }
  {
    const torch::NoGradGuard no_gradient;
    for (std::size_t index = 0; index < 4; ++index)
      resumed.parameters()[index].copy_(network.parameters()[index]);
  }
  ShardedOptimizer second(communicator, resumed, make_adam({}));
  second.load_state(first.gather_state(), first.steps());
  first.zero_grad();
  second.zero_grad();
  backward(network, 3);
  backward(resumed, 3);
  first.step();
  second.step();
  for (std::size_t index = 0; index < 4; ++index)
    EXPECT_TRUE(network.parameters()[index].equal(resumed.parameters()[index]));
}

}  // namespace

}  // namespace kolo::testing
