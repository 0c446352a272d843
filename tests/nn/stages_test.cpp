#include <set>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/nn/models.h"
#include "kolo/nn/network.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/small_models.h"

// Networks as chains of stages.
namespace kolo::testing {
namespace {

std::shared_ptr<Network> made(const SmallModel& model) {
  torch::manual_seed(1);
  return make_network(model.name, model.options);
}

// Slope of a sum of outputs that weighs each differently.
torch::Tensor slope_of(const torch::Tensor& output) {
  torch::manual_seed(3);
  return torch::randn(output.sizes());
}

std::vector<torch::Tensor> gradients_of(const torch::nn::Module& network) {
  std::vector<torch::Tensor> gradients;
  for (const auto& parameter : network.parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

class Stages : public ::testing::TestWithParam<SmallModel> {};

TEST_P(Stages, HaveEachParameterAndBufferOnceUnderItsName) {
  const auto network = made(GetParam());
  std::set<std::string> expected, found;
  for (const auto& item : network->named_parameters()) expected.insert(item.key());
  for (const auto& item : network->named_buffers()) expected.insert(item.key());
  const auto modules = network->named_modules();
  for (const auto& stage : network->stages()) {
    for (const auto& part : stage.modules) {
      EXPECT_EQ(modules[part.name], part.module) << part.name;
      const auto note = [&](const auto& items) {
        for (const auto& item : items)
          EXPECT_TRUE(found.insert(part.name + "." + item.key()).second) << item.key();
      };
      note(part.module->named_parameters());
      note(part.module->named_buffers());
    }
  }
  EXPECT_EQ(found, expected);
}

// Each stage with a graph of its own, as on ranks of a pipeline: the same bits as with one graph.
TEST_P(Stages, OneByOneHaveTheOutputsAndGradientsOfTheWhole) {
  const auto whole = made(GetParam());
  torch::manual_seed(2);
  const auto input = GetParam().input(3);
  const auto output = whole->forward(input);
  output.backward(slope_of(output));

  const auto parts = made(GetParam());
  const auto stages = parts->stages();
  std::vector<StagePayload> inputs, outputs;
  StagePayload payload{input};
  for (const auto& stage : stages) {
    StagePayload leaves, copies;
    for (const auto& tensor : payload) {
      leaves.push_back(tensor.detach().clone().requires_grad_());
      copies.push_back(leaves.back().clone());  // a leaf may not be changed in place
    }
    inputs.push_back(leaves);
    outputs.push_back(stage.forward(copies));
    payload = outputs.back();
  }
  ASSERT_EQ(payload.size(), 1U);
  EXPECT_TRUE(payload.front().equal(output));
  StagePayload slopes{slope_of(output)};
  for (std::size_t stage = stages.size(); stage-- > 0;) {
    torch::autograd::backward(outputs[stage], slopes);
    slopes.clear();
    for (const auto& leaf : inputs[stage]) slopes.push_back(leaf.grad());
  }
  const auto expected = gradients_of(*whole), found = gradients_of(*parts);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(found[i].equal(expected[i])) << whole->named_parameters().keys()[i];
}

TEST_P(Stages, KeepTheirModulesWhenTheNetworkIsGone) {
  auto network = made(GetParam());
  torch::manual_seed(2);
  const auto input = GetParam().input(3);
  const auto expected = network->forward(input);
  const auto stages = network->stages();
  const std::weak_ptr<Network> gone = network;
  network.reset();
  EXPECT_TRUE(gone.expired());
  EXPECT_TRUE(run_stages(stages, {input}).front().equal(expected));
}

// Each operation is one stage's, and what goes on is what the next one takes.
TEST_P(Stages, AreSummarizedAsTheWholeIs) {
  const auto network = made(GetParam());
  const auto whole = summarize(*network, GetParam().options.input_shape);
  std::int64_t flops = 0, parameters = 0;
  const auto stages = summarize_stages(*network, GetParam().options.input_shape);
  for (const auto& stage : stages) {
    flops += stage.flops;
    parameters += stage.parameters;
    EXPECT_GT(stage.flops, 0) << stage.name;
  }
  EXPECT_EQ(flops, whole.flops);
  EXPECT_EQ(parameters, whole.parameters);
  const torch::NoGradGuard no_gradient;
  EXPECT_EQ(stages.back().elements, network->forward(GetParam().input(1)).numel());
}

INSTANTIATE_TEST_SUITE_P(Networks, Stages, ::testing::ValuesIn(small_models()), name_of);

class Unchained final : public Network {
 public:
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) override { return input; }
};

TEST(Network, ThatIsNoChainHasNoStages) {
  EXPECT_TRUE(says(message_of<InputError>([] { (void)Unchained().stages(); }),
                   {"the network has no stages"}));
}

}  // namespace
}  // namespace kolo::testing
