#include <memory>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "kolo/base/error.h"
#include "kolo/parallel/broadcast_state.h"
#include "kolo/parallel/tensor_collectives.h"
#include "parallel/small_network.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"

namespace kolo::testing {

namespace {

using OptimizerPointer = std::unique_ptr<torch::optim::Optimizer>;

struct Kind {
  const char* name;
  // Variants differ in learning rate and options.
  std::function<OptimizerPointer(std::vector<torch::Tensor>, int variant)> make;
};

const std::vector<Kind>& kinds() {
  namespace optim = torch::optim;
  static const std::vector<Kind> all = {
      {"SGD",
       [](auto parameters, int v) {
         return std::make_unique<optim::SGD>(
             parameters, optim::SGDOptions(.05 / (v + 1)).momentum(.9 - .1 * v).nesterov(v == 0));
       }},
      {"Adam",
       [](auto parameters, int v) {
         return std::make_unique<optim::Adam>(
             parameters,
             optim::AdamOptions(.03 / (v + 1)).betas({.8, .9 + .01 * v}).amsgrad(v == 0));
       }},
      {"AdamW",
       [](auto parameters, int v) {
         return std::make_unique<optim::AdamW>(
             parameters, optim::AdamWOptions(.03 / (v + 1)).weight_decay(.1 * (v + 1)));
       }},
      {"RMSprop",
       [](auto parameters, int v) {
         return std::make_unique<optim::RMSprop>(
             parameters, optim::RMSpropOptions(.01 / (v + 1)).momentum(.5).centered(v == 0));
       }},
      {"Adagrad",
       [](auto parameters, int v) {
         return std::make_unique<optim::Adagrad>(
             parameters, optim::AdagradOptions(.03 / (v + 1)).lr_decay(.1 * v));
       }},
      {"LBFGS",
       [](auto parameters, int v) {
         return std::make_unique<optim::LBFGS>(
             parameters, optim::LBFGSOptions(.1 / (v + 1)).max_iter(3 + v).history_size(5 + v));
       }},
  };
  return all;
}

// Steps on batches that are the same on every rank.
void train(SmallNetwork& network, torch::optim::Optimizer& optimizer, std::int64_t begin,
           std::int64_t end) {
  for (std::int64_t step = begin; step < end; ++step) {
    optimizer.step([&] {
      optimizer.zero_grad();
      const auto loss = mean_loss(network, samples(4 * step, 4 * step + 4));
      loss.backward();
      return loss;
    });
  }
}

void expect_equal_to_roots(const Communicator& communicator, const SmallNetwork& network,
                           int root) {
  for (const auto& item : network.named_parameters()) {
    auto of_root = item.value().detach().clone();
    broadcast(communicator, of_root, root);
    EXPECT_TRUE(item.value().equal(of_root)) << item.key();
  }
}

// Trains root and the others for so many steps; after the broadcast all continue alike.
void train_on_after_broadcast(const Communicator& communicator, int steps_of_root,
                              int steps_of_others) {
  const int root = communicator.size() - 1;
  const bool is_root = communicator.rank() == root;
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    SmallNetwork network(7, 5 + communicator.rank()), alone(7, 5 + root);
    const auto optimizer = kind.make(network.parameters(), is_root ? 0 : 1);
    const auto reference = kind.make(alone.parameters(), 0);
    train(network, *optimizer, 0, is_root ? steps_of_root : steps_of_others);
    train(alone, *reference, 0, steps_of_root);
    network.calls.fill_(communicator.rank());
    broadcast_state(communicator, network, *optimizer, root);
    EXPECT_TRUE(network.calls.eq(root).all().item<bool>());
    EXPECT_EQ(optimizer->state().size(), reference->state().size());
    const auto& options = optimizer->param_groups()[0].options();
    EXPECT_EQ(options.get_lr(), reference->param_groups()[0].options().get_lr());
    EXPECT_EQ(optimizer->defaults().get_lr(), options.get_lr());
    train(network, *optimizer, 10, 14);
    train(alone, *reference, 10, 14);
    expect_equal_to_roots(communicator, network, root);
    expect_parameters(network, alone.parameters());
  }
}

RANK_TEST(BroadcastState, EveryStateBecomesRoots) {
  for (const auto& [of_root, of_others] : {std::pair{3, 0}, {0, 3}, {2, 3}})
    train_on_after_broadcast(communicator, of_root, of_others);
}

RANK_TEST(BroadcastState, EveryGroupTakesItsOptions) {
  SmallNetwork network;
  const auto parameters = network.parameters();
  const double mine = communicator.rank() + 1;
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<torch::Tensor>{parameters[0], parameters[1]},
                      std::make_unique<torch::optim::SGDOptions>(.1 * mine));
  groups.emplace_back(std::vector<torch::Tensor>{parameters[2], parameters[3]},
                      std::make_unique<torch::optim::SGDOptions>(.5 * mine));
  torch::optim::SGD optimizer(groups, torch::optim::SGDOptions(1.));
  broadcast_optimizer_state(communicator, optimizer);
  EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), .1);
  EXPECT_EQ(optimizer.param_groups()[1].options().get_lr(), .5);
}

RANK_TEST(BroadcastState, ParametersAndBuffersBecomeRoots) {
  SmallNetwork network(7, 10 + communicator.rank());
  network.first->weight.set_requires_grad(false);
  network.calls.fill_(communicator.rank());
  const auto* memory = network.second->weight.data_ptr();
  broadcast_parameters(communicator, network);
  broadcast_buffers(communicator, network);
  const SmallNetwork of_root(7, 10);
  expect_parameters(network, of_root.parameters());
  EXPECT_EQ(network.second->weight.data_ptr(), memory);
  EXPECT_TRUE(network.calls.eq(0).all().item<bool>());
}

RANK_TEST(BroadcastState, WhatDiffersIsNamed) {
  if (communicator.size() == 1) return;
  const bool is_last = communicator.rank() == communicator.size() - 1;
  SmallNetwork network(is_last ? 8 : 7);
  const auto last = communicator.size() - 1;
  EXPECT_TRUE(says(message_of<Error>([&] { broadcast_parameters(communicator, network); }),
                   {fmt::format("rank {} has first.weight float32 [8, 5]", last)}));
  SmallNetwork same;
  OptimizerPointer optimizer = kinds()[is_last ? 0 : 1].make(same.parameters(), 0);
  EXPECT_TRUE(says(message_of<Error>([&] { broadcast_optimizer_state(communicator, *optimizer); }),
                   {fmt::format("rank {} has torch::optim::SGDOptions group 0", last)}));
}

// An optimizer that was never meant to be saved.
struct Unsaved : torch::optim::Optimizer {
  explicit Unsaved(std::vector<torch::Tensor> parameters)
      : Optimizer(std::move(parameters), std::make_unique<torch::optim::SGDOptions>(.1)) {}
  torch::Tensor step(LossClosure /*closure*/) override { return {}; }
};

RANK_TEST(BroadcastState, AnOptimizerThatCannotBeSavedIsAnErrorEverywhere) {
  if (communicator.size() == 1) return;
  SmallNetwork network;
  Unsaved optimizer(network.parameters());
  EXPECT_TRUE(says(message_of<Error>([&] { broadcast_optimizer_state(communicator, optimizer); }),
                   {"rank 1 could not load it: nothing has been saved"}));
}

}  // namespace

}  // namespace kolo::testing
