#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/training_step.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

constexpr std::int64_t part_size = 6;  // of a part

// A running statistic, as batch norm's: it must not depend on which parts a rank has.
struct Counting : SmallNetwork {
  torch::Tensor forward(const torch::Tensor& input) {
    calls.mul_(.9F).add_(input.mean().item<float>());
    return SmallNetwork::forward(input) * (1 + calls[0]);
  }
};

struct PartedReplica {
  PartedReplica(const Communicator& communicator, const StepSettings& options,
                const std::shared_ptr<const FlatOptimizer>& optimizer = make_adam({}))
      : network(std::make_shared<Counting>()), step(communicator, network, optimizer, options) {}

  TrainingStep::Outcome make(std::int64_t number,
                             const std::function<double(int part)>& factor_of = nullptr) {
    step.begin(number);
    const auto parts = step.parts();
    for (int part = parts.first; part < parts.end; ++part) {
      const auto begin = (number * 64 + part) * part_size;
      auto loss = network->forward(samples(begin, begin + part_size)).square().sum(1).mean();
      if (factor_of) loss = loss * factor_of(part);
      step.backward(loss, torch::tensor({loss.item<double>(), 1. / (1 + part)}, torch::kDouble), 1,
                    part + 1 == parts.end);
    }
    return step.end(step.finish(.01));
  }

  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> values;
    const auto add = [&](const torch::Tensor& tensor) {
      const auto flat = tensor.detach().contiguous();
      values.insert(values.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
    };
    for (const auto& parameter : network->parameters()) add(parameter);
    for (const auto& buffer : network->buffers()) add(buffer);
    return values;
  }

  std::shared_ptr<Counting> network;
  TrainingStep step;
};

StepSettings options_of(int virtual_ranks, const BucketLimits& limits) {
  return {.buckets = limits, .clip_norm = .5, .virtual_ranks = virtual_ranks};
}

const BucketLimits each_its_own{1, 1}, all_in_one{1 << 20, 1 << 20};

// Expects, after every step, the bits of one rank that has all parts.
RANK_TEST(VirtualRanks, StepsHaveTheBitsOfOneRank) {
  const int ranks = communicator.size();
  const std::vector<std::shared_ptr<const FlatOptimizer>> optimizers = {
      make_adam({}), make_lamb({}), make_schedule_free_sgd({})};
  for (const int virtual_ranks : {ranks, ranks + 1, 2 * ranks + 1, 12}) {
    for (const auto& limits : {each_its_own, all_in_one}) {
      for (const auto& optimizer : optimizers) {
        const auto options = options_of(virtual_ranks, limits);
        PartedReplica replica(communicator, options, optimizer);
        PartedReplica alone(Communicator::solo(), options, optimizer);
        EXPECT_EQ(alone.step.parts(), (PartRange{0, virtual_ranks}));
        for (std::int64_t number = 1; number <= 4; ++number) {
          EXPECT_EQ(replica.make(number).sums, alone.make(number).sums) << optimizer->name();
          EXPECT_EQ(replica.values(), alone.values())
              << virtual_ranks << " virtual ranks, " << optimizer->name();
        }
        replica.step.to_evaluation();
        alone.step.to_evaluation();
        EXPECT_EQ(replica.values(), alone.values()) << optimizer->name();
        communicator.barrier();
      }
    }
  }
}

// A step uses the average over all parts.
RANK_TEST(VirtualRanks, StepsAreThoseOfOneBatch) {
  const int ranks = communicator.size(), virtual_ranks = 2 * ranks;
  const auto make = [&](TrainingStep& step, SmallNetwork& network, bool in_parts) {
    for (std::int64_t number = 1; number <= 3; ++number) {
      const auto begin = number * virtual_ranks * part_size;
      const auto loss_of = [&](std::int64_t from, std::int64_t count) {
        return mean_loss(network, samples(from, from + count));
      };
      step.begin(number);
      const auto parts = step.parts();
      for (int part = parts.first; in_parts && part < parts.end; ++part)
        step.backward(loss_of(begin + part * part_size, part_size), {}, 1, part + 1 == parts.end);
      if (!in_parts) step.backward(loss_of(begin, virtual_ranks * part_size));
      (void)step.end(step.finish(.05));
    }
  };
  auto network = std::make_shared<SmallNetwork>(), whole = std::make_shared<SmallNetwork>();
  TrainingStep parted(communicator, network, make_sgd({.momentum = .5}),
                      {.virtual_ranks = virtual_ranks});
  TrainingStep alone(Communicator::solo(), whole, make_sgd({.momentum = .5}));
  make(parted, *network, true);
  make(alone, *whole, false);
  expect_parameters(*network, whole->parameters(), 1e-5, 1e-6);
}

// One rank sees infinity in one of its parts; all leave the step out and continue with equal bits.
RANK_TEST(VirtualRanks, AStepThatIsNotFiniteIsLeftOutOnAllRanks) {
  auto options = options_of(2 * communicator.size(), all_in_one);
  options.non_finite = NonFiniteStep::skip;
  PartedReplica replica(communicator, options), alone(Communicator::solo(), options);
  for (std::int64_t number = 1; number <= 3; ++number) {
    const auto factor_of = [&](int part) { return part == 1 && number == 2 ? INFINITY : 1.; };
    EXPECT_EQ(replica.make(number, factor_of).is_made, number != 2);
    EXPECT_EQ(alone.make(number, factor_of).is_made, number != 2);
    EXPECT_EQ(replica.values(), alone.values());
  }
}

RANK_TEST(VirtualRanks, WhatDoesNotGoTogetherIsRefused) {
  const auto message_with = [&](const StepSettings& options) {
    return message_of<Error>([&] { PartedReplica replica(communicator, options); });
  };
  if (communicator.size() > 1) {
    EXPECT_TRUE(says(message_with({.virtual_ranks = communicator.size() - 1}),
                     {"virtual ranks; expected"}));
  }
  StepSettings unused{.virtual_ranks = communicator.size()};
  unused.reducer.unused_parameters = true;
  EXPECT_TRUE(says(message_with(unused), {"virtual ranks can't be had with unused_parameters: "}));
  PartedReplica without(communicator, {});
  EXPECT_EQ(without.step.parts().size(), 1);
  PartedReplica too_few(Communicator::solo(), options_of(3, all_in_one));
  too_few.step.begin(1);
  EXPECT_TRUE(
      says(message_of<Error>(
               [&] { too_few.step.backward(too_few.network->forward(samples(0, 2)).sum()); }),
           {"1 passes in a step; with virtual ranks there is one for each of this rank's 3"}));
}

}  // namespace

}  // namespace kolo::testing
