#include "kolo/nn/network.h"

#include "kolo/base/error.h"
#include "kolo/nn/models.h"
#include "nn/script_files.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using Tensors = std::vector<torch::Tensor>;

class Scale final : public Network {
 public:
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) override {
    return factor_ * input;
  }

 private:
  torch::Tensor factor_ = register_parameter("factor", torch::full({1}, 3.F));
};

TEST(TensorsNetwork, ANetworkIsOneOfOneTensor) {
  const std::shared_ptr<TensorsNetwork> network = std::make_shared<Scale>();
  const auto output = network->forward(Tensors{torch::full({1}, 2.F)});
  ASSERT_EQ(output.size(), 1U);
  EXPECT_EQ(output[0].item<float>(), 6);
  const auto refusal = [&](const Tensors& inputs) {
    return message_of<InputError>([&] { (void)network->forward(inputs); });
  };
  EXPECT_TRUE(says(refusal({torch::zeros({2, 1}), torch::zeros({3})}),
                   {"takes 1 tensor, but got 2: [2, 1] of Float, [3] of Float"}));
  EXPECT_TRUE(says(refusal({}), {"takes 1 tensor, but got 0: nothing"}));
}

class ScriptOfTensors : public ::testing::Test {
 protected:
  std::filesystem::path saved(const torch::jit::Module& module) const {
    module.save((folder_ / "pair.pt").string());
    return folder_ / "pair.pt";
  }
  [[nodiscard]] std::shared_ptr<TensorsNetwork> load(
      const torch::jit::Module& module,
      const std::optional<TensorsShapes>& shapes = std::nullopt) const {
    return make_torchscript_tensors_network(saved(module), shapes);
  }
  [[nodiscard]] std::string refusal(
      const torch::jit::Module& module,
      const std::optional<TensorsShapes>& shapes = std::nullopt) const {
    return message_of<InputError>([&] { (void)load(module, shapes); });
  }

  TemporaryFolder folder_;
  Tensors inputs_{torch::randn({5, 3}), torch::randn({5, 2})};
};

// Whatever holds the outputs.
TEST_F(ScriptOfTensors, TakesAndGivesSeveral) {
  for (const char* gives : {"(y, y.sum(1, True))", "[y, y.sum(1, True)]"}) {
    const auto network = load(testing::pair_script(gives));
    EXPECT_THAT(network->named_parameters().keys(), ElementsAre("weight", "inner.weight"));
    EXPECT_THAT(network->named_buffers().keys(), ElementsAre("mean", "inner.calls"));
    EXPECT_TRUE(network->is_training());
    network->eval();
    const auto outputs = network->forward(inputs_);
    ASSERT_EQ(outputs.size(), 2U) << gives;
    const auto weight = network->named_parameters()["weight"];
    const auto inner = network->named_parameters()["inner.weight"];
    const auto expected = inputs_[0].mm(weight.t()) + inputs_[1].mm(inner.t()).tanh();
    EXPECT_TRUE(outputs[0].allclose(expected, 1e-5, 1e-6));
    EXPECT_TRUE(outputs[1].allclose(expected.sum(1, true), 1e-5, 1e-6));
    (outputs[0].sum() + outputs[1].sum()).backward();
    EXPECT_TRUE(weight.grad().defined());
    EXPECT_TRUE(inner.grad().defined());
  }
}

TEST_F(ScriptOfTensors, ShapesAreTriedWhereTheyAreGiven) {
  const auto module = testing::pair_script();
  const auto network = load(module, TensorsShapes{{{3}, {2}}, {{4}, {1}}});
  EXPECT_TRUE(network->is_training());
  EXPECT_EQ(network->named_buffers()["inner.calls"].item<int>(), 0) << "nothing was changed";
  EXPECT_TRUE(says(refusal(module, TensorsShapes{{{3}, {2}}, {{4}}}),
                   {"pair.pt gives [2, 4], [2, 1] for a batch [2, 3], [2, 2], expected [2, 4]"}));
  EXPECT_TRUE(says(refusal(module, TensorsShapes{{{4}, {2}}, {{4}, {1}}}),
                   {"pair.pt: does not work on [2, 4] of Float, [2, 2] of Float: "}));
}

TEST_F(ScriptOfTensors, RefusesOtherArgumentsAndResults) {
  auto module = testing::script_module("Other");
  module.register_parameter("weight", torch::ones({3}, torch::requires_grad()), false);
  module.define("def forward(self, x, factor: float):\n  return self.weight * x * factor\n");
  EXPECT_TRUE(says(refusal(module), {"pair.pt: forward takes factor of type float"}));

  auto optional = testing::script_module("Optional");
  optional.register_parameter("weight", torch::ones({3}, torch::requires_grad()), false);
  optional.define(
      "def forward(self, x, y: Optional[Tensor] = None, factor: float = 2.0):\n"
      "  if y is not None:\n"
      "    x = x + y\n"
      "  return self.weight * x * factor\n");
  const auto network = load(optional);
  const Tensors ones{torch::ones({3}), torch::ones({3}), torch::ones({3})};
  EXPECT_EQ(network->forward({ones.data(), 1})[0].sum().item<float>(), 6);
  EXPECT_EQ(network->forward({ones.data(), 2})[0].sum().item<float>(), 12);
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)network->forward(ones); }),
                   {"takes 1 to 2 tensors, but got 3"}));

  const auto mixed = load(testing::pair_script("(y, 3)"));
  EXPECT_TRUE(says(message_of<Error>([&] { (void)mixed->forward(inputs_); }),
                   {"expected a tensor, or a tuple or list of them"}));
}

}  // namespace
}  // namespace kolo::testing
