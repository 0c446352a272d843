#include "kolo/nn/network_replica.h"

#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <torch/utils.h>

#include "kolo/base/error.h"
#include "kolo/nn/models.h"
#include "nn/script_files.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/small_models.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using Tensors = std::vector<torch::Tensor>;
using Make = std::function<std::shared_ptr<TensorsNetwork>()>;

// Changes parameters in place, as a step does, and buffers by the forward pass.
void train_a_step(TensorsNetwork& network, const Tensors& inputs) {
  auto loss = torch::zeros({});
  for (const auto& output : network.forward(inputs)) loss = loss + output.square().mean();
  for (const auto& parameter : network.parameters()) parameter.mutable_grad() = torch::Tensor();
  loss.backward();
  const torch::NoGradGuard no_gradient;
  for (const auto& parameter : network.parameters()) {
    if (parameter.grad().defined()) parameter.sub_(1e-3 * parameter.grad());
  }
}

// Evaluates a copy, so that the trained network's mode stays.
Tensors evaluated(const Make& make, TensorsNetwork& trained, const Tensors& inputs) {
  const auto copy = make();
  const torch::NoGradGuard no_gradient;
  const auto from = trained.parameters(), buffers = trained.buffers();
  for (std::size_t i = 0; i < from.size(); ++i) copy->parameters()[i].copy_(from[i]);
  for (std::size_t i = 0; i < buffers.size(); ++i) copy->buffers()[i].copy_(buffers[i]);
  copy->eval();
  return copy->forward(inputs);
}

void expect_equal(const Tensors& found, const Tensors& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(found[i].allclose(expected[i], 2e-6, 1e-6)) << i;
}

// As those of an arena that is laid out anew.
void move_parameters(const TensorsNetwork& network) {
  for (torch::Tensor& parameter : network.parameters())
    parameter.set_data(parameter.detach().clone());
}

void expect_to_follow(const Make& make, const Tensors& inputs) {
  const auto trained = make();
  NetworkReplica replica(make);
  replica.use(*trained);
  for (int step = 0; step < 3; ++step) {
    train_a_step(*trained, inputs);
    expect_equal(replica.infer(inputs), evaluated(make, *trained, inputs));
    EXPECT_TRUE(trained->is_training());
    for (const auto& module : trained->modules()) EXPECT_TRUE(module->is_training());
  }
  move_parameters(*trained);
  const auto before = replica.infer(inputs);
  train_a_step(*trained, inputs);
  replica.use(trained->parameters(), trained->buffers());
  const auto after = replica.infer(inputs);
  EXPECT_FALSE(torch::equal(before[0], after[0]));
  expect_equal(after, evaluated(make, *trained, inputs));
  for (const auto& parameter : trained->parameters()) EXPECT_TRUE(parameter.requires_grad());
}

class ReplicaOf : public ::testing::TestWithParam<testing::SmallModel> {};

TEST_P(ReplicaOf, FollowsTheTrainedNetwork) {
  torch::manual_seed(1);
  const auto make = [] { return make_network(GetParam().name, GetParam().options); };
  expect_to_follow(make, {GetParam().input(2)});
}

INSTANTIATE_TEST_SUITE_P(Networks, ReplicaOf, ::testing::ValuesIn(testing::small_models()),
                         testing::name_of);

class ScriptReplica : public ::testing::Test {
 protected:
  ScriptReplica() {
    torch::manual_seed(2);
    testing::pair_script().save(file_);
  }

  TemporaryFolder folder_;
  std::string file_ = (folder_ / "pair.pt").string();
  Make make_ = [this] { return make_torchscript_tensors_network(file_); };
  Tensors inputs_{torch::randn({5, 3}), torch::randn({5, 2})};
};

TEST_F(ScriptReplica, FollowsTheTrainedScript) {
  expect_to_follow(make_, inputs_);
}

TEST_F(ScriptReplica, ChangesNoBufferOfTheTrainedScript) {
  auto module = testing::script_module("Counting");  // in evaluation mode, too
  module.register_parameter("weight", torch::ones({3}, torch::requires_grad()), false);
  module.register_buffer("calls", torch::zeros({}));
  module.define(
      "def forward(self, x):\n"
      "  self.calls = self.calls + 1\n"
      "  return self.weight * x + self.calls\n");
  module.save(file_);
  const auto trained = make_();
  NetworkReplica replica(make_);
  replica.use(*trained);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(replica.infer(Tensors{torch::zeros({3})})[0][0].item<float>(), 1);
  EXPECT_EQ(trained->buffers()[0].item<float>(), 0);
}

const Make make_mlp_of_three = [] {
  return make_network("mlp", {.input_shape = {3}, .output_shape = {2}});
};

TEST(NetworkReplica, LeavesTheRandomNumbersOfTrainingAlone) {
  torch::manual_seed(3);
  const auto expected = torch::rand({4});
  torch::manual_seed(3);
  NetworkReplica replica(make_mlp_of_three);
  EXPECT_TRUE(torch::equal(torch::rand({4}), expected));
}

// Whatever they are, one after another.
TEST(NetworkReplica, TakesParametersOfOtherTypesAndCopies) {
  NetworkReplica replica(make_mlp_of_three);
  const auto trained = make_mlp_of_three();
  const auto input = torch::randn({4, 3}).requires_grad_();
  const auto expected = trained->forward({&input, 1})[0].detach();
  Tensors copies, inference_copies;
  for (const auto& parameter : trained->parameters()) {
    copies.push_back(parameter.detach().clone());
    const c10::InferenceMode inference;
    inference_copies.push_back(parameter.clone());
  }
  for (int repetition = 0; repetition < 2; ++repetition) {
    for (const auto& parameters : {copies, inference_copies, trained->parameters()}) {
      replica.use(parameters, {});
      const auto output = replica.infer({&input, 1})[0];
      EXPECT_TRUE(torch::equal(output, expected));
      EXPECT_FALSE(output.requires_grad());
    }
  }
  trained->to(torch::kFloat64);
  replica.use(*trained);
  const auto wide = input.detach().to(torch::kFloat64);
  EXPECT_TRUE(torch::equal(replica.infer({&wide, 1})[0], trained->forward({&wide, 1})[0]));
}

TEST(NetworkReplica, RefusesAnotherNetworksParameters) {
  NetworkReplica replica(make_mlp_of_three);
  const auto other = make_network("mlp", {.input_shape = {5}, .output_shape = {2}});
  const auto input = torch::randn({1, 3});
  const auto before = replica.infer({&input, 1})[0];
  const auto refusal = [&](const Tensors& parameters, const Tensors& buffers) {
    return message_of<Error>([&] { replica.use(parameters, buffers); });
  };
  EXPECT_TRUE(says(refusal(other->parameters(), {}),
                   {"a replica has parameter hidden1.weight [64, 3], but was given [64, 5]"}));
  EXPECT_TRUE(says(refusal({input}, {}), {"a replica has 6 parameters, but was given 1"}));
  EXPECT_TRUE(says(refusal(make_mlp_of_three()->parameters(), {input}),
                   {"a replica has 0 buffers, but was given 1"}));
  EXPECT_TRUE(torch::equal(replica.infer({&input, 1})[0], before));
}

}  // namespace
}  // namespace kolo::testing
