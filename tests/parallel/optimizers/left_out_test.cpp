#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include "kolo/parallel/arena_optimizer.h"
#include "kolo/parallel/distributed_optimizer.h"
#include "kolo/parallel/sharded_arena_optimizer.h"
#include "parallel/small_network.h"
#include "support/rank_test.h"

// Parameters that take no part in a step: frozen between steps, or used by nobody. Whatever the
// optimizer, they stay as they are, and go on later as torch::optim would.
namespace kolo::testing {

namespace {

constexpr double pace = .02, decay = .1;

// Three layers side by side, of which a step uses some.
struct Layers : torch::nn::Module {
  Layers() : first(5, 40), second(5, 40), third(5, 40) {
    register_module("first", first);
    register_module("second", second);
    register_module("third", third);
    to(torch::kDouble);
    set_to_sines(*this, 1);
  }

  torch::Tensor loss(const torch::Tensor& input, bool with_second, bool with_third) {
    torch::Tensor output = first(input);
    if (with_second) output = output + second(input);
    if (with_third) output = output * third(input);
    return output.square().sum(1).mean();
  }

  torch::nn::Linear first, second, third;
};

// A way to train a network: start() returns the function that makes a step after a backward pass.
struct Method {
  std::string name;
  std::function<std::function<void(std::int64_t step)>(const Communicator&, Layers&,
                                                       const ReducerOptions&)>
      start;
};

std::shared_ptr<const FlatOptimizer> flat_adam() {
  return make_adam({.weight_decay = decay});
}

using MakeFlatOptimizer = std::function<std::unique_ptr<BucketOptimizer>(
    const Communicator&, const std::shared_ptr<ParameterArena>&)>;

// With small buckets, which are updated one by one, or all at the end.
Method flat_method(const std::string& name, bool bucket_by_bucket, const MakeFlatOptimizer& make) {
  return {name + (bucket_by_bucket ? ", by bucket" : ""),
          [=](const Communicator& communicator, Layers& network,
              ReducerOptions options) -> std::function<void(std::int64_t)> {
            const auto arena =
                std::make_shared<ParameterArena>(communicator, network, BucketLimits{1500, 3000});
            const std::shared_ptr<BucketOptimizer> optimizer = make(communicator, arena);
            options.rebuild_buckets = false;
            options.hook = optimizer->gradient_hook();
            const auto reducer = std::make_shared<GradientReducer>(communicator, arena, options);
            return [=](std::int64_t step) {
              if (!bucket_by_bucket) reducer->finish();
              for (std::size_t bucket = 0; bucket < arena->buckets(); ++bucket) {
                if (bucket_by_bucket) reducer->wait(bucket);
                optimizer->update(bucket, pace, step);
              }
              if (bucket_by_bucket) reducer->finish();
              optimizer->finish();
            };
          }};
}

Method arena_method(bool is_shared, bool bucket_by_bucket) {
  const StepSharing sharing{.enabled = is_shared, .smallest_bytes = 0};
  return flat_method(is_shared ? "shared" : "arena", bucket_by_bucket,
                     [=](const auto& communicator, const auto& arena) {
                       return std::make_unique<ArenaOptimizer>(communicator, arena, flat_adam(),
                                                               sharing);
                     });
}

Method sharded_method(bool bucket_by_bucket) {
  return flat_method("sharded", bucket_by_bucket, [](const auto& communicator, const auto& arena) {
    return std::make_unique<ShardedArenaOptimizer>(communicator, arena, flat_adam());
  });
}

Method distributed_method() {
  return {"distributed",
          [](const Communicator& communicator, Layers& network, const ReducerOptions& options) {
            auto optimizer = std::make_shared<DistributedOptimizer>(
                communicator, network,
                torch::optim::Adam(network.parameters(),
                                   torch::optim::AdamOptions(pace).weight_decay(decay)),
                DistributedOptimizerOptions{.reducer = options});
            return std::function<void(std::int64_t)>([=](std::int64_t) { optimizer->step(); });
          }};
}

std::vector<Method> methods() {
  return {arena_method(false, false), arena_method(false, true), arena_method(true, true),
          sharded_method(false),      sharded_method(true),      distributed_method()};
}

// Layers that take part in a step: by rank and step, who uses the second and the third.
struct Schedule {
  std::function<void(Layers&, std::int64_t step)> prepare = [](Layers&, std::int64_t) {};
  std::function<bool(int rank, std::int64_t step)> uses_second = [](int, std::int64_t) {
    return true;
  };
  std::function<bool(int rank, std::int64_t step)> uses_third = uses_second;
};

// The same steps by torch::optim, in a network that sees all ranks' samples.
class Peer {
 public:
  explicit Peer(int ranks)
      : ranks_(ranks),
        optimizer_(network.parameters(), torch::optim::AdamOptions(pace).weight_decay(decay)) {}

  void train(const Schedule& schedule, std::int64_t step) {
    schedule.prepare(network, step);
    network.zero_grad(true);
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto begin = ((step * ranks_) + rank) * 4;
      (network.loss(samples(begin, begin + 4, torch::kDouble), schedule.uses_second(rank, step),
                    schedule.uses_third(rank, step)) /
       ranks_)
          .backward();
    }
    optimizer_.step();
  }

  Layers network;

 private:
  int ranks_;
  torch::optim::Adam optimizer_;
};

void expect_same_training(const Communicator& communicator, const Method& method,
                          const Schedule& schedule, const ReducerOptions& options) {
  Layers network;
  Peer peer(communicator.size());
  const auto step_of = method.start(communicator, network, options);
  for (std::int64_t step = 0; step < 9; ++step) {
    schedule.prepare(network, step);
    network.zero_grad(true);
    const auto begin = ((step * communicator.size()) + communicator.rank()) * 4;
    network
        .loss(samples(begin, begin + 4, torch::kDouble),
              schedule.uses_second(communicator.rank(), step),
              schedule.uses_third(communicator.rank(), step))
        .backward();
    const auto before = copies_of(peer.network);
    step_of(step + 1);
    peer.train(schedule, step);
    for (std::size_t index = 0; index < before.size(); ++index) {
      const auto expected = peer.network.parameters()[index];
      EXPECT_TRUE(network.parameters()[index].allclose(expected, 1e-7, 1e-9))
          << method.name << ", step " << step << ", parameter " << index
          << (expected.equal(before[index]) ? ", which takes no part" : "");
    }
  }
}

RANK_TEST(LeftOut, WhatIsFrozenBetweenStepsStays) {
  Schedule schedule;
  schedule.prepare = [](Layers& network, std::int64_t step) {
    const bool is_trained = step < 3 || step >= 6;
    for (auto& parameter : network.second->parameters()) parameter.requires_grad_(is_trained);
  };
  for (const Method& method : methods()) expect_same_training(communicator, method, schedule, {});
}

RANK_TEST(LeftOut, WhatNobodyUsesStays) {
  Schedule schedule;
  // Nobody uses it in the first two steps, then one rank, later everybody except in one step.
  schedule.uses_second = [](int rank, std::int64_t step) {
    return step >= 2 && (step >= 4 ? step != 6 : rank == 0);
  };
  for (const Method& method : methods())
    expect_same_training(communicator, method, schedule, {.unused_parameters = true});
}

RANK_TEST(LeftOut, WhatAStaticGraphLacksStays) {
  Schedule schedule;
  schedule.uses_second = [](int, std::int64_t) { return false; };
  schedule.uses_third = [](int rank, std::int64_t) { return rank == 0; };
  for (const Method& method : methods()) {
    expect_same_training(communicator, method, schedule,
                         {.unused_parameters = true, .static_graph = true});
  }
}

// A gradient that is left from before the freeze moves nothing either.
RANK_TEST(LeftOut, AFrozenParameterWithAnOldGradientStays) {
  for (const Method& method :
       {arena_method(false, true), arena_method(true, true), sharded_method(true)}) {
    Layers network;
    const auto step_of = method.start(communicator, network, {});
    const auto train = [&](std::int64_t step) {
      network.loss(samples(0, 4, torch::kDouble), true, true).backward();
      step_of(step);
    };
    train(1);
    for (auto& parameter : network.second->parameters()) parameter.requires_grad_(false);
    const auto frozen = network.second->weight.clone();
    const auto trained = network.first->weight.clone();
    for (auto each : {network.first, network.third}) each->zero_grad(true);
    train(2);
    EXPECT_TRUE(network.second->weight.equal(frozen)) << method.name;
    EXPECT_FALSE(network.first->weight.equal(trained)) << method.name;
  }
}

// The steps that a parameter has left out are part of a checkpoint.
RANK_TEST(LeftOut, LeftOutStepsSurviveACheckpoint) {
  const auto make = [&](Layers& network) {
    auto arena = std::make_shared<ParameterArena>(communicator, network);
    return std::make_pair(
        arena, std::make_shared<ShardedArenaOptimizer>(communicator, arena, flat_adam()));
  };
  Layers network, resumed;
  const auto [arena, optimizer] = make(network);
  const auto [other_arena, other] = make(resumed);
  const auto step_of = [](Layers& of, const ParameterArena& in, ShardedArenaOptimizer& by,
                          std::int64_t step) {
    of.zero_grad(true);
    of.loss(samples(step, step + 4, torch::kDouble), true, true).backward();
    const torch::NoGradGuard no_gradient;
    for (std::size_t index = 0; index < in.parameters().size(); ++index) {
      if (in.takes_part(index)) in.gradient_view(index).copy_(in.parameters()[index].grad());
    }
    for (std::size_t bucket = 0; bucket < in.buckets(); ++bucket) by.update(bucket, pace, step);
    by.finish();
  };
  for (auto& parameter : network.second->parameters()) parameter.requires_grad_(false);
  step_of(network, *arena, *optimizer, 1);
  step_of(network, *arena, *optimizer, 2);
  for (auto& parameter : network.second->parameters()) parameter.requires_grad_(true);
  const auto state = optimizer->named_state();
  EXPECT_THAT(optimizer->skipped_steps(), ::testing::ElementsAre(0, 0, 2, 2, 0, 0));
  other->scatter_state(communicator, optimizer->skipped_steps(), [&](const auto& whole) {
    for (std::size_t index = 0; index < whole.size(); ++index)
      torch::Tensor(whole[index].tensor).copy_(state[index].tensor);
  });
  ArenaOptimizer whole(arena, flat_adam());
  EXPECT_THAT(whole.skipped_steps(), ::testing::Each(0));
  copy_parameters(resumed, network);
  step_of(network, *arena, *optimizer, 3);
  step_of(resumed, *other_arena, *other, 3);
  expect_parameters(network, resumed.parameters());
}

}  // namespace

}  // namespace kolo::testing
