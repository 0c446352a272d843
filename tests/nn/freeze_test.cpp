// Parts of a network that aren't trained.
#include <array>

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/optim/sgd.h>

#include "kolo/nn/models.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

std::shared_ptr<Network> residual_network() {
  torch::manual_seed(1);
  return make_network("resnet_small", {.input_shape = {3, 16, 16}, .classes = 4});
}

// Copies of all parameters and buffers.
std::map<std::string, torch::Tensor> values_of(const torch::nn::Module& network) {
  std::map<std::string, torch::Tensor> values;
  for (const auto& item : network.named_parameters())
    values[item.key()] = item.value().detach().clone();
  for (const auto& item : network.named_buffers()) values[item.key()] = item.value().clone();
  return values;
}

TEST(Freeze, StepsLeaveParametersAndRunningStatistics) {
  const auto network = residual_network();
  const auto first = network->named_children()[0].key();
  network->freeze(std::array{first});
  const auto before = values_of(*network);
  for (const bool is_validated : {false, true}) {
    if (is_validated) network->eval();
    network->train();
    torch::optim::SGD optimizer(network->parameters(), .1);
    network->forward(torch::randn({8, 3, 16, 16})).square().sum().backward();
    optimizer.step();
  }
  for (const auto& [name, value] : values_of(*network)) {
    const bool is_frozen = name.starts_with(first + ".");
    EXPECT_EQ(value.equal(before.at(name)), is_frozen) << name;
  }
  for (const auto& item : network->named_parameters())
    EXPECT_EQ(item.value().grad().defined(), !item.key().starts_with(first + "."));
}

TEST(Freeze, AParameterAloneIsFrozenByItsWholeName) {
  const auto network = make_network("mnist_net", {.input_shape = {1, 28, 28}, .classes = 10});
  network->freeze(std::array<std::string, 1>{"conv1.bias"});
  for (const auto& item : network->named_parameters())
    EXPECT_EQ(item.value().requires_grad(), item.key() != "conv1.bias");
}

TEST(Freeze, NamesThatNothingHasAndAllOfItAreRefused) {
  const auto network = make_network("mnist_net", {.input_shape = {1, 28, 28}, .classes = 10});
  const auto said_of = [&](std::vector<std::string> names) {
    return message_of<InputError>([&] { network->freeze(names); });
  };
  EXPECT_TRUE(says(said_of({"conv"}),
                   {"no module or parameter \"conv\"", "did you mean \"conv1\"?", "fc2"}));
  EXPECT_TRUE(says(said_of({"conv1", "conv2", "fc1", "fc2"}), {"nothing is left to train"}));
}

}  // namespace
}  // namespace kolo::testing
