#include <algorithm>
#include <memory>
#include <vector>

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/arena_optimizer.h"
#include "parallel/optimizers/replica.h"
#include "support/rank_test.h"

namespace kolo::testing {

namespace {

constexpr StepSharing always{.enabled = true, .smallest_bytes = 0};
constexpr StepSharing averaging{.enabled = true, .smallest_bytes = 0, .averages = true};

bool can_share(const Communicator& communicator) {
  const auto& topology = communicator.topology();
  return communicator.capabilities().shared_memory && topology.nodes < topology.size;
}

std::vector<std::shared_ptr<const FlatOptimizer>> elementwise_optimizers() {
  return {make_adam({.weight_decay = .01}),
          make_sgd({.momentum = .9, .weight_decay = .02, .decay_excludes_vectors = true}),
          make_adagrad({.initial_accumulator = .25}), make_sgd({}),
          make_schedule_free_adamw({.weight_decay = .1})};
}

struct Case {
  BucketLimits limits = large;
  torch::ScalarType type = torch::kFloat;
  StepSharing sharing = always;
  std::int64_t width = hidden;
};

// Both average their gradients in the same way, so nothing may differ, not even in the last bit.
void expect_same_training(const Communicator& communicator, const Case& tried,
                          const std::shared_ptr<const FlatOptimizer>& algorithm) {
  SCOPED_TRACE(algorithm->name());
  Replica shared(communicator, tried.limits, tried.type, tried.width);
  Replica whole(communicator, tried.limits, tried.type, tried.width);
  ArenaOptimizer optimizer(communicator, shared.arena, algorithm, tried.sharing);
  ArenaOptimizer reference(whole.arena, algorithm);
  EXPECT_EQ(optimizer.is_shared(), can_share(communicator));
  EXPECT_EQ(optimizer.averages_in_update(), tried.sharing.averages && can_share(communicator) &&
                                                communicator.topology().nodes == 1);
  for (std::int64_t step = 0; step < 4; ++step) {
    shared.backward(step);
    whole.backward(step);
    if (!optimizer.averages_in_update()) shared.all_reduce_gradients();
    whole.all_reduce_gradients();
    update_all(optimizer, *shared.arena, step + 1);
    optimizer.finish();
    update_all(reference, *whole.arena, step + 1);
    expect_parameters(shared.network, whole.network.parameters());
  }
  expect_state(optimizer, reference);
  communicator.barrier();  // a rank that is ahead would change what the others look at
}

RANK_TEST(SharedStep, ItTrainsLikeEveryRankAlone) {
  for (const auto& algorithm : elementwise_optimizers()) {
    for (const BucketLimits& limits : {tiny, large}) {
      for (const auto type : {torch::kFloat, torch::kDouble}) {
        expect_same_training(communicator, {limits, type}, algorithm);
        expect_same_training(communicator, {limits, type, averaging}, algorithm);
      }
    }
  }
}

// So wide that each rank has several pieces, for more than one thread.
RANK_TEST(SharedStep, PiecesOfWideLayersMakeNoDifference) {
  const auto threads = at::get_num_threads();
  at::set_num_threads(2);
  expect_same_training(communicator, {.sharing = averaging, .width = 30'000}, make_adam({}));
  expect_same_training(communicator, {.type = torch::kDouble, .width = 30'000}, make_adagrad({}));
  at::set_num_threads(threads);
}

// A rank writes into the parameters of its whole node; a broadcast brings root's to all nodes.
RANK_TEST(SharedStep, OneCopyIsOfTheFirstRankAndOneMemory) {
  const Replica replica(communicator, tiny, torch::kFloat);
  const auto& parameters = replica.arena->parameters();
  const auto fill = [&](double value) {
    const torch::NoGradGuard no_gradient;
    for (const auto& parameter : parameters) torch::Tensor(parameter).fill_(value);
  };
  const auto have = [&](double value) {
    return std::ranges::all_of(parameters, [&](const torch::Tensor& parameter) {
      return parameter.eq(value).all().item<bool>();
    });
  };
  const auto& topology = communicator.topology();
  fill(topology.local_rank == 0 ? 10. + topology.node : -1.);
  const ArenaOptimizer optimizer(communicator, replica.arena, make_adam({}), always);
  if (!can_share(communicator)) return;
  EXPECT_TRUE(have(10. + topology.node));
  communicator.barrier();
  const int last = communicator.size() - 1;
  if (communicator.rank() == last) fill(7);
  replica.arena->broadcast_parameters(communicator, last);
  EXPECT_TRUE(have(7));
  communicator.barrier();
}

// One rank alone has loaded the network.
RANK_TEST(SharedStep, OneCopyTakesBackWhatOneRankHasLoaded) {
  const Replica replica(communicator, tiny, torch::kFloat);
  const ArenaOptimizer optimizer(communicator, replica.arena, make_adam({}), always);
  if (communicator.rank() == 0) {
    for (torch::Tensor parameter : replica.arena->parameters())
      parameter.set_data(torch::full_like(parameter, 3));
  }
  replica.arena->broadcast_parameters(communicator);
  for (const auto& parameter : replica.arena->parameters())
    EXPECT_TRUE(parameter.eq(3).all().item<bool>());
  communicator.barrier();
}

RANK_TEST(SharedStep, WhatIsNotWorthItIsNotShared) {
  const auto is_shared = [&](const std::shared_ptr<const FlatOptimizer>& algorithm,
                             const StepSharing& sharing) {
    const Replica replica(communicator, large, torch::kFloat);
    return ArenaOptimizer(communicator, replica.arena, algorithm, sharing).is_shared();
  };
  EXPECT_FALSE(is_shared(make_adam({}), {.enabled = true}));  // too small
  EXPECT_FALSE(is_shared(make_adam({}), {.enabled = false, .smallest_bytes = 0}));
  EXPECT_FALSE(is_shared(make_lars({.momentum = .9}), always));  // needs norms of whole parameters
}

RANK_TEST(SharedStep, StateBeginsAsTheOptimizerSaysAndBecomesThatOfRankZero) {
  for (const StepSharing& sharing : {always, StepSharing{}}) {
    const Replica replica(communicator, tiny, torch::kFloat);
    ArenaOptimizer optimizer(communicator, replica.arena,
                             make_adagrad({.initial_accumulator = .25}), sharing);
    const auto expect_state = [&](double value) {
      for (const auto& each : optimizer.named_state())
        EXPECT_TRUE(each.tensor.eq(value).all().item<bool>()) << each.name;
      communicator.barrier();
    };
    expect_state(.25);
    optimizer.scatter_state(communicator, std::vector<std::int64_t>(4), [](const auto& whole) {
      for (const auto& each : whole) torch::Tensor(each.tensor).fill_(.5);
    });
    expect_state(.5);
  }
}

}  // namespace

}  // namespace kolo::testing
