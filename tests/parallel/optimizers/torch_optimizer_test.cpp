#include <functional>
#include <memory>
#include <sstream>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <torch/optim/adam.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/serialize.h>

#include "kolo/base/error.h"
#include "kolo/parallel/broadcast_state.h"
#include "parallel/optimizers/sgd_of.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

// kolo's optimizers in programs that know LibTorch's only.
namespace kolo::testing {

namespace {

using torch::optim::AdamOptions;
using torch::optim::SGDOptions;

struct DoubleNetwork : SmallNetwork {
  DoubleNetwork() : SmallNetwork(40) { to(torch::kDouble); }
};

torch::Tensor loss_of_rank(SmallNetwork& network, int rank, std::int64_t step) {
  return mean_loss(network, samples_of(rank, step, torch::kDouble));
}

torch::Tensor mean_of_ranks(SmallNetwork& network, int ranks, std::int64_t step) {
  torch::Tensor sum = torch::zeros({}, torch::kDouble);
  for (int rank = 0; rank < ranks; ++rank) sum = sum + loss_of_rank(network, rank, step) / ranks;
  return sum;
}

// A user's function, which knows nothing of ranks.
void train(torch::optim::Optimizer& optimizer, torch::nn::Module& network, bool with_closure,
           const std::function<torch::Tensor(std::int64_t step)>& loss_of) {
  torch::optim::StepLR scheduler(optimizer, 2, .5);
  for (std::int64_t step = 0; step < 6; ++step) {
    const auto closure = [&] {
      network.zero_grad(true);
      const torch::Tensor loss = loss_of(step);
      loss.backward();
      return loss;
    };
    if (with_closure) {
      (void)optimizer.step(closure);
    } else {
      (void)closure();
      (void)optimizer.step();
    }
    scheduler.step();
  }
}

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(DoubleNetwork&)>;

void expect_trained_alike(const Communicator& communicator, const MakeOptimizer& make,
                          const MakeOptimizer& make_peer) {
  for (const bool with_closure : {false, true}) {
    DoubleNetwork network, reference;
    const auto optimizer = make(network), peer = make_peer(reference);
    train(*optimizer, network, with_closure,
          [&](std::int64_t step) { return loss_of_rank(network, communicator.rank(), step); });
    train(*peer, reference, with_closure,
          [&](std::int64_t step) { return mean_of_ranks(reference, communicator.size(), step); });
    expect_parameters(network, reference.parameters(), 1e-7, 1e-9);
    for (std::size_t group = 0; group < peer->param_groups().size(); ++group) {
      EXPECT_EQ(optimizer->param_groups()[group].options().get_lr(),
                peer->param_groups()[group].options().get_lr());
    }
  }
}

template <typename Options>
std::vector<torch::optim::OptimizerParamGroup> two_groups(const DoubleNetwork& network,
                                                          Options first, Options second) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(network.first->parameters(), std::make_unique<Options>(std::move(first)));
  groups.emplace_back(network.second->parameters(), std::make_unique<Options>(std::move(second)));
  return groups;
}

RANK_TEST(TorchOptimizer, FunctionsTakeThemAsOptimizers) {
  const auto groups = [](DoubleNetwork& network) {
    return two_groups(network, AdamOptions(.02).weight_decay(.1), AdamOptions(.05));
  };
  const MakeOptimizer adam = [&](DoubleNetwork& network) {
    return std::make_unique<torch::optim::Adam>(groups(network), AdamOptions(.01));
  };
  const MakeOptimizer distributed = [&](DoubleNetwork& network) {
    return std::make_unique<DistributedOptimizer>(
        communicator, network, torch::optim::Adam(groups(network), AdamOptions(.01)));
  };
  expect_trained_alike(communicator, distributed, adam);
  expect_trained_alike(
      communicator,
      [&](DoubleNetwork& network) {
        return std::make_unique<ShardedOptimizer>(communicator, network,
                                                  make_adam({.weight_decay = .1}),
                                                  ShardedOptimizerOptions{.learning_rate = .02});
      },
      [](DoubleNetwork& network) {
        return std::make_unique<torch::optim::Adam>(network.parameters(),
                                                    AdamOptions(.02).weight_decay(.1));
      });
}

RANK_TEST(TorchOptimizer, OptionsMayBeChangedOnEitherSide) {
  DoubleNetwork network, reference;
  torch::optim::SGD inner(network.parameters(), SGDOptions(.01).momentum(.9));
  torch::optim::SGD peer(reference.parameters(), SGDOptions(.01).momentum(.9));
  DistributedOptimizer optimizer(communicator, network, std::ref(inner));
  torch::optim::Optimizer& outside = optimizer;
  const auto options_of = [](torch::optim::Optimizer& of) -> SGDOptions& {
    return static_cast<SGDOptions&>(of.param_groups()[0].options());
  };
  for (std::int64_t step = 0; step < 6; ++step) {
    if (step == 1) options_of(outside).lr(.005);
    if (step == 2) options_of(inner).lr(.02).weight_decay(.01);
    if (step == 3) options_of(optimizer.inner()).momentum(.5);
    if (step == 4) options_of(outside).nesterov(true);
    if (step == 1) options_of(peer).lr(.005);
    if (step == 2) options_of(peer).lr(.02).weight_decay(.01);
    if (step == 3) options_of(peer).momentum(.5);
    if (step == 4) options_of(peer).nesterov(true);
    network.zero_grad(true);
    reference.zero_grad(true);
    loss_of_rank(network, communicator.rank(), step).backward();
    mean_of_ranks(reference, communicator.size(), step).backward();
    outside.step();
    peer.step();
    EXPECT_TRUE(options_of(outside) == options_of(peer)) << "step " << step;
    EXPECT_TRUE(options_of(inner) == options_of(peer)) << "step " << step;
  }
  expect_parameters(network, reference.parameters(), 1e-7, 1e-9);
  EXPECT_EQ(optimizer.state().size(), 4U);
}

// Newer versions of LibTorch take an option that equals its kind's default for unset.
RANK_TEST(TorchOptimizer, GroupsKeepOptionsThatAreDefaultsElsewhere) {
  DoubleNetwork network;
  torch::optim::Adam inner(two_groups(network, AdamOptions(.02), AdamOptions(.05)),
                           AdamOptions(.01));
  inner.param_groups()[1].options().set_lr(AdamOptions().get_lr());
  DistributedOptimizer optimizer(communicator, network, std::ref(inner));
  torch::optim::Optimizer& outside = optimizer;
  EXPECT_EQ(outside.param_groups()[0].options().get_lr(), .02);
  EXPECT_EQ(outside.param_groups()[1].options().get_lr(), AdamOptions().get_lr());
  EXPECT_EQ(optimizer.inner().param_groups()[1].options().get_lr(), AdamOptions().get_lr());
}

// An archive of it is one of the optimizer inside, and the other way round.
RANK_TEST(TorchOptimizer, ArchivesAreThoseOfTheInnerOptimizer) {
  DoubleNetwork network, plain;
  DistributedOptimizer optimizer(communicator, network,
                                 torch::optim::Adam(network.parameters(), AdamOptions(.02)));
  loss_of_rank(network, communicator.rank(), 0).backward();
  optimizer.step();
  std::stringstream archive, again;
  torch::save(optimizer, archive);
  torch::optim::Adam other(plain.parameters(), AdamOptions(.02));
  torch::load(other, archive);
  EXPECT_EQ(other.state().size(), 4U);
  torch::save(other, again);
  DoubleNetwork resumed;
  DistributedOptimizer third(communicator, resumed,
                             torch::optim::Adam(resumed.parameters(), AdamOptions(.02)));
  torch::load(third, again);
  EXPECT_EQ(third.state().size(), 4U);
}

RANK_TEST(TorchOptimizer, StateIsBroadcastThroughEither) {
  DoubleNetwork network;
  const bool is_root = communicator.rank() == 0;
  DistributedOptimizer optimizer(
      communicator, network,
      torch::optim::SGD(network.parameters(), SGDOptions(is_root ? .3 : .1).momentum(.9)));
  torch::optim::Optimizer& outside = optimizer;
  broadcast_state(communicator, network, outside);
  EXPECT_EQ(outside.param_groups()[0].options().get_lr(), .3);
  EXPECT_EQ(optimizer.inner().param_groups()[0].options().get_lr(), .3);
  loss_of_rank(network, communicator.rank(), 0).backward();
  optimizer.step();
  if (is_root) optimizer.state().clear();
  broadcast_state(communicator, network, outside);
  EXPECT_EQ(optimizer.state().size(), 0U);
}

RANK_TEST(TorchOptimizer, NoGroupIsAdded) {
  DoubleNetwork network;
  for (auto& parameter : network.second->parameters()) parameter.requires_grad_(false);
  DistributedOptimizer optimizer(communicator, network,
                                 torch::optim::SGD(network.first->parameters(), SGDOptions(.01)));
  torch::optim::Optimizer& outside = optimizer;
  outside.add_param_group({network.second->parameters()});
  EXPECT_TRUE(says(message_of<Error>([&] { (void)optimizer.inner(); }),
                   {"takes no further group of parameters"}));
}

// After finish() a distributed optimizer's averages may be looked at; step() doesn't average again,
// and zero_grad() discards them.
template <typename Optimizer>
void train_and_discard(const Communicator& communicator, DoubleNetwork& network,
                       Optimizer& optimizer, double momentum) {
  DoubleNetwork reference;
  torch::optim::SGD peer(reference.parameters(), SGDOptions(.01).momentum(momentum));
  for (std::int64_t step = 0; step < 6; ++step) {
    optimizer.zero_grad();
    reference.zero_grad(true);
    {
      const auto quiet = optimizer.no_sync();
      loss_of_rank(network, communicator.rank(), step + 10).backward();
    }
    loss_of_rank(network, communicator.rank(), step).backward();
    mean_of_ranks(reference, communicator.size(), step + 10).backward();
    mean_of_ranks(reference, communicator.size(), step).backward();
    if (step % 3 != 0) {
      optimizer.finish();
      for (std::size_t i = 0; i < 4 && std::is_same_v<Optimizer, DistributedOptimizer>; ++i) {
        EXPECT_TRUE(
            network.parameters()[i].grad().allclose(reference.parameters()[i].grad(), 1e-9, 1e-11));
      }
    }
    if (step % 3 == 2) {
      optimizer.zero_grad();
      if (step == 2) continue;
      reference.zero_grad(true);
    }
    optimizer.step();
    peer.step();
    expect_parameters(network, reference.parameters(), 1e-7, 1e-9);
  }
}

RANK_TEST(TorchOptimizer, AveragesMayBeLookedAtOrDiscarded) {
  DoubleNetwork network, other;
  auto optimizer = distributed_sgd(communicator, network, .01);
  train_and_discard(communicator, network, optimizer, 0);
  // Averages are used once.
  EXPECT_TRUE(says(message_of<Error>([&] {
                     optimizer.step();
                     optimizer.step();
                   }),
                   {"there was no backward() in this step"}));
  ShardedOptimizer sharded(communicator, other, make_sgd({.momentum = .9}), {.learning_rate = .01});
  train_and_discard(communicator, other, sharded, .9);
}

// The program may change the network between finish() and step().
RANK_TEST(TorchOptimizer, WhatIsDoneToFinishedGradientsCounts) {
  DoubleNetwork network, reference;
  ShardedOptimizer optimizer(communicator, network, make_sgd({.momentum = .9}),
                             {.learning_rate = .01});
  torch::optim::SGD peer(reference.parameters(), SGDOptions(.01).momentum(.9));
  const auto backward = [&](std::int64_t step) {
    optimizer.zero_grad();
    reference.zero_grad(true);
    loss_of_rank(network, communicator.rank(), step).backward();
    mean_of_ranks(reference, communicator.size(), step).backward();
    optimizer.finish();
  };
  const auto step = [&] {
    optimizer.step();
    peer.step();
    expect_parameters(network, reference.parameters(), 1e-7, 1e-9);
  };
  backward(0);
  step();
  backward(1);  // one parameter keeps what it has, and its momentum
  network.parameters()[1].mutable_grad() = torch::Tensor();
  reference.parameters()[1].mutable_grad() = torch::Tensor();
  step();
  backward(2);  // other values in other memory
  for (auto* const each : {&network, &reference}) {
    for (auto& parameter : each->parameters()) parameter.set_data(parameter.detach() * .5);
  }
  step();
  backward(3);
  step();
}

RANK_TEST(TorchOptimizer, AClosureWithoutALossIsAnError) {
  DoubleNetwork network, other;
  auto distributed = distributed_sgd(communicator, network, .01);
  ShardedOptimizer sharded(communicator, other, make_sgd({}), {.learning_rate = .01});
  const auto message_of_step = [&](DoubleNetwork& module, torch::optim::Optimizer& optimizer,
                                   const torch::Tensor& loss) {
    return message_of<Error>([&] {
      optimizer.step([&] {
        loss_of_rank(module, communicator.rank(), 0).backward();
        return loss;
      });
    });
  };
  for (const auto& loss : {torch::Tensor(), torch::zeros({2})}) {
    EXPECT_TRUE(says(message_of_step(network, distributed, loss), {"returned no loss"}));
    EXPECT_TRUE(says(message_of_step(other, sharded, loss), {"returned no loss"}));
    for (DoubleNetwork* const each : {&network, &other}) each->zero_grad(true);
    other.zero_grad();
  }
}

RANK_TEST(TorchOptimizer, AveragesAreDiscardedOnAllRanks) {
  if (communicator.size() == 1) return;
  DoubleNetwork network, other;
  auto distributed = distributed_sgd(communicator, network, .01);
  ShardedOptimizer sharded(communicator, other, make_sgd({}), {.learning_rate = .01});
  const auto message_after = [&](DoubleNetwork& module, const auto& finish, auto& optimizer) {
    const auto before = copies_of(module);
    loss_of_rank(module, communicator.rank(), 0).backward();
    finish();
    if (communicator.rank() == 1) optimizer.zero_grad();
    auto message = message_of<Error>([&] { optimizer.step(); });
    expect_parameters(module, before, 1e-7, 1e-9);
    return message;
  };
  EXPECT_TRUE(says(message_after(
                       network, [&] { distributed.reducer().finish(); }, distributed),
                   {"rank 1 has discarded the averages of first.weight, first.bias"}));
  EXPECT_TRUE(says(message_after(
                       other, [&] { sharded.finish(); }, sharded),
                   {"rank 1 has discarded the averages of first.weight, first.bias"}));
}

RANK_TEST(TorchOptimizer, ShardedStateIsNotSavedInPart) {
  DoubleNetwork network;
  ShardedOptimizer optimizer(communicator, network, make_adam({}));
  std::stringstream archive;
  EXPECT_TRUE(says(message_of<Error>([&] { torch::save(optimizer, archive); }),
                   {"call gather_state() on all ranks"}));
}

}  // namespace

}  // namespace kolo::testing
