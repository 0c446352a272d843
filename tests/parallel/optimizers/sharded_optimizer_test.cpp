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

// Bits are equal where both reduce in the order of ranks, otherwise numbers up to rounding.
double tolerance_on(const Communicator& communicator) {
  const bool one_order =
      communicator.capabilities().shared_memory && communicator.topology().nodes == 1;
  return one_order || communicator.size() <= 2 ? 0 : 1e-6;
}

void expect_same_sharded_training(const Communicator& communicator, const BucketLimits& limits,
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
  const double tolerance = tolerance_on(communicator);
  expect_parameters(sharded.network, whole.network.parameters(), tolerance, tolerance);
  expect_state(optimizer, reference, tolerance);
  EXPECT_EQ(hook->bytes_sent(),
            communicator.size() == 1 ? 0 : 6 * sharded.arena->plan().total_bytes);
}

RANK_TEST(ShardedOptimizer, ItTrainsLikeTheUnshardedOne) {
  const std::shared_ptr<const FlatOptimizer> adam = make_adam({.weight_decay = .01});
  const std::shared_ptr<const FlatOptimizer> momentum = make_sgd({.momentum = .9});
  const std::shared_ptr<const FlatOptimizer> plain = make_sgd({});
  expect_same_sharded_training(communicator, tiny, torch::kDouble, adam);
  expect_same_sharded_training(communicator, large, torch::kDouble, adam);
  expect_same_sharded_training(communicator, tiny, torch::kFloat, momentum);
  expect_same_sharded_training(communicator, large, torch::kFloat, plain);
  // Biases apart: parts are cut both for ranks and between parameters.
  const std::shared_ptr<const FlatOptimizer> sparing =
      make_adam({.weight_decay = .1, .decoupled_decay = true, .decay_excludes_vectors = true});
  expect_same_sharded_training(communicator, tiny, torch::kFloat, sparing);
  expect_same_sharded_training(communicator, large, torch::kDouble, sparing);
  // A state that doesn't begin as zeros.
  expect_same_sharded_training(communicator, large, torch::kFloat, make_adagrad({}));
  expect_same_sharded_training(communicator, tiny, torch::kFloat, make_schedule_free_adamw({}));
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
  // Each of the two states has fewer than 16 elements per rank left over.
  EXPECT_LE(optimizer.state_bytes(),
            whole / communicator.size() + 2 * 16 * 4 * communicator.size());
}

RANK_TEST(ShardedOptimizer, StateSurvivesACheckpoint) {
  SmallNetwork network(hidden), copy(hidden);
  for (SmallNetwork* const each : {&network, &copy}) each->to(torch::kDouble);
  ShardedOptimizer first(communicator, network, make_adam({}), {.buckets = tiny});
  const auto make_step = [&](SmallNetwork& of, ShardedOptimizer& by, std::int64_t step) {
    const auto begin = (step * communicator.size() + communicator.rank()) * 4;
    by.zero_grad();
    mean_loss(of, samples(begin, begin + 4, torch::kDouble)).backward();
    by.step();
  };
  make_step(network, first, 0);
  copy_parameters(copy, network);
  // Other buckets are cut for the ranks in other places.
  ShardedOptimizer resumed(communicator, copy, make_adam({}), {.buckets = large});
  auto state = first.gather_state();
  resumed.load_state(state, first.steps());
  make_step(network, first, 1);
  make_step(copy, resumed, 1);
  expect_parameters(network, copy.parameters(), 1e-12, 1e-14);
  state.push_back({"more", torch::ones({1})});
  EXPECT_TRUE(says(message_of<Error>([&] { resumed.load_state(state, 2); }), {"a state of 9"}));
  state[7].name = "other";
  EXPECT_TRUE(says(message_of<Error>([&] { resumed.load_state(state, 2); }),
                   {"has no second.bias.exp_avg_sq"}));
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
  expect_parameters(network, reference.parameters(), 1e-6, 1e-7);
}

}  // namespace

}  // namespace kolo::testing
