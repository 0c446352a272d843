// Optimizers that train other parameters than those to use.
#include <memory>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/sharded_arena_optimizer.h"
#include "parallel/optimizers/replica.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

// Computes the parameters for use from the whole state, as a checkpoint does.
std::vector<torch::Tensor> average_of(const Replica& replica, const ArenaOptimizer& optimizer) {
  const auto use = optimizer.algorithm().for_use().value();
  auto values = copies_of(replica.network);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto name = replica.arena->plan().parameters[i].name + ".z_minus_x";
    for (const auto& each : optimizer.named_state())
      if (each.name == name) values[i] = values[i] - each.tensor.mul(use.factor);
  }
  return values;
}

template <typename Optimizer>
void train_steps(Replica& replica, Optimizer& optimizer, std::int64_t first, std::int64_t end) {
  for (std::int64_t step = first; step < end; ++step) {
    replica.backward(step);
    replica.all_reduce_gradients();
    update_all(optimizer, *replica.arena, step + 1);
    optimizer.finish();
  }
  replica.communicator.barrier();  // a rank that is ahead would change what the others look at
}

// A replica that shares nothing: what it has trained and averaged.
struct TrainedAlone {
  TrainedAlone(const Communicator& communicator,
               const std::shared_ptr<const FlatOptimizer>& algorithm, const BucketLimits& limits)
      : replica(communicator, limits, torch::kFloat), optimizer(replica.arena, algorithm) {
    train_steps(replica, optimizer, 0, 3);
    trained = copies_of(replica.network);
    averaged = average_of(replica, optimizer);
    rates = optimizer.rate_history();
    train_steps(replica, optimizer, 3, 4);
    later = copies_of(replica.network);
  }

  Replica replica;
  ArenaOptimizer optimizer;
  std::vector<torch::Tensor> trained, averaged, later;
  RateHistory rates;
};

template <typename Optimizer>
void expect_average(Replica& replica, Optimizer& optimizer, const TrainedAlone& expected) {
  const auto& communicator = replica.communicator;
  train_steps(replica, optimizer, 0, 3);
  EXPECT_EQ(optimizer.rate_history(), expected.rates);
  expect_parameters(replica.network, expected.trained);
  communicator.barrier();
  optimizer.to_evaluation();
  expect_parameters(replica.network, expected.averaged);
  EXPECT_FALSE(expected.averaged[0].equal(expected.trained[0]));
  EXPECT_TRUE(
      says(message_of<Error>([&] { optimizer.update(0, .02, 4); }), {"call to_training() first"}));
  communicator.barrier();
  optimizer.to_evaluation();  // is there already
  optimizer.to_training();
  expect_parameters(replica.network, expected.trained);
  communicator.barrier();
  train_steps(replica, optimizer, 3, 4);
  expect_parameters(replica.network, expected.later);
  communicator.barrier();
}

RANK_TEST(Average, IsTheSameHoweverStepsAreShared) {
  const std::vector<std::shared_ptr<const FlatOptimizer>> algorithms = {
      make_schedule_free_sgd({.momentum = .8}),
      make_schedule_free_adamw({.weight_decay = .1, .decay_excludes_vectors = true})};
  for (const auto& algorithm : algorithms) {
    for (const BucketLimits& limits : {tiny, large}) {
      const TrainedAlone expected(communicator, algorithm, limits);
      for (const StepSharing& sharing :
           {StepSharing{}, StepSharing{.enabled = true, .smallest_bytes = 0}}) {
        Replica replica(communicator, limits, torch::kFloat);
        ArenaOptimizer optimizer(communicator, replica.arena, algorithm, sharing);
        expect_average(replica, optimizer, expected);
      }
      Replica replica(communicator, limits, torch::kFloat);
      ShardedArenaOptimizer optimizer(communicator, replica.arena, algorithm);
      expect_average(replica, optimizer, expected);
    }
  }
}

RANK_TEST(Average, OfOthersIsWhatTheyTrain) {
  Replica replica(communicator, tiny, torch::kFloat);
  ArenaOptimizer optimizer(replica.arena, make_adam({}));
  train_steps(replica, optimizer, 0, 2);
  const auto trained = copies_of(replica.network);
  optimizer.to_evaluation();
  expect_parameters(replica.network, trained);
  optimizer.to_training();
  expect_parameters(replica.network, trained);
}

}  // namespace

}  // namespace kolo::testing
