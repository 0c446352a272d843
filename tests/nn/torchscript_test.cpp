#include "kolo/nn/models.h"

#include <filesystem>
#include <fstream>

#include <torch/nn/functional.h>
#include <torch/script.h>
#include <torch/serialize.h>

#include "kolo/base/error.h"
#include "kolo/nn/network.h"
#include "nn/script_files.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"
#include "support/temporary_folder.h"
#include "support/test_devices.h"

namespace kolo::testing {
namespace {

// A small classifier as torch.jit.script makes it: linear layer "hidden", batch norm whose count is
// replaced by a new tensor, as in old files, dropout, linear layer "output".
torch::jit::Module classifier() {
  torch::manual_seed(1);
  auto hidden = testing::script_module("Hidden");
  hidden.register_parameter("weight", torch::randn({6, 4}, torch::requires_grad()), false);
  hidden.register_parameter("bias", torch::zeros({6}, torch::requires_grad()), false);
  hidden.define("def forward(self, x):\n  return torch.linear(x, self.weight, self.bias)\n");

  auto module = testing::script_module("Classifier");
  module.register_module("hidden", hidden);
  module.register_parameter("weight", torch::randn({3, 6}, torch::requires_grad()), false);
  module.register_buffer("running_mean", torch::zeros({6}));
  module.register_buffer("running_var", torch::ones({6}));
  module.register_buffer("batches", torch::zeros({}, torch::kInt64));
  module.define(R"(
def forward(self, x):
  y = self.hidden.forward(x)
  if self.training:
    self.batches = self.batches + 1
  y = torch.batch_norm(y, None, None, self.running_mean, self.running_var, self.training,
                       0.1, 1e-5, False)
  return torch.matmul(torch.dropout(torch.relu(y), 0.5, self.training), self.weight.t())
)");
  return module;
}

class TorchScript : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path file(const char* name) const { return folder_.path() / name; }
  std::filesystem::path saved(const torch::jit::Module& module) const {
    module.save(file("model.pt").string());
    return file("model.pt");
  }
  [[nodiscard]] std::shared_ptr<Network> load(const torch::jit::Module& module) const {
    return make_torchscript_network(saved(module), options_);
  }
  [[nodiscard]] std::string refusal(const torch::jit::Module& module) const {
    return message_of<InputError>([&] { (void)load(module); });
  }

  TemporaryFolder folder_;
  ModelOptions options_{.input_shape = {4}, .classes = 3};
  torch::Tensor input_ = torch::randn({5, 4});
};

TEST_F(TorchScript, HasTheScriptsParametersAndBuffers) {
  const auto network = load(classifier());
  EXPECT_THAT(network->named_parameters().keys(),
              ElementsAre("weight", "hidden.weight", "hidden.bias"));
  EXPECT_THAT(network->named_buffers().keys(),
              ElementsAre("running_mean", "running_var", "batches"));
  for (const auto& parameter : network->parameters()) EXPECT_TRUE(parameter.requires_grad());
  EXPECT_TRUE(network->is_training());
  EXPECT_EQ(network->buffers()[2].item<int>(), 0) << "loading changes nothing";
}

TEST_F(TorchScript, ModesReachTheScriptAndBuffersStayTheNetworks) {
  const auto network = load(classifier());
  const torch::Tensor mean = network->named_buffers()["running_mean"];
  const torch::Tensor batches = network->named_buffers()["batches"];
  EXPECT_FALSE(torch::equal(network->forward(input_), network->forward(input_)));
  EXPECT_EQ(batches.item<int>(), 2);
  EXPECT_GT(mean.abs().sum().item<double>(), 0);
  network->eval();
  EXPECT_TRUE(torch::equal(network->forward(input_), network->forward(input_)));
  EXPECT_EQ(batches.item<int>(), 2);

  batches.fill_(40);  // as when a checkpoint is read
  network->train();
  (void)network->forward(input_);
  EXPECT_EQ(batches.item<int>(), 41);
}

torch::Tensor plain_classifier(const Network& network, const torch::Tensor& input) {
  const auto p = network.named_parameters();
  const auto b = network.named_buffers();
  torch::Tensor x = torch::addmm(p["hidden.bias"], input, p["hidden.weight"].t());
  x = torch::relu((x - b["running_mean"]) / (b["running_var"] + 1e-5).sqrt());
  return x.mm(p["weight"].t());
}

// Its constants, parameters and buffers move to a device with the network.
TEST_F(TorchScript, OutputsAndGradientsAreThoseOfTheSameNetwork) {
  const auto network = load(classifier());
  network->to(testing::test_device(0));
  network->eval();
  const auto input = input_.to(testing::test_device(0));
  for (int repetition = 0; repetition < 4; ++repetition) {  // the executor profiles at first
    const torch::Tensor output = network->forward(input);
    const torch::Tensor expected = plain_classifier(*network, input);
    EXPECT_TRUE(torch::allclose(output, expected, 1e-5, 1e-6));
    const auto gradients = torch::autograd::grad({output.square().sum()}, network->parameters());
    const auto plain = torch::autograd::grad({expected.square().sum()}, network->parameters());
    for (std::size_t i = 0; i < plain.size(); ++i)
      EXPECT_TRUE(torch::allclose(gradients[i], plain[i], 1e-5, 1e-5)) << i;
  }
}

// One large memory for all parameters, as ParameterArena has it.
torch::Tensor move_into_one_memory(Network& network, std::int64_t spare) {
  std::int64_t count = spare;
  for (const auto& parameter : network.parameters()) count += parameter.numel();
  const torch::Tensor memory = torch::zeros({count});
  std::int64_t at = spare;
  for (torch::Tensor& parameter : network.parameters()) {
    const torch::NoGradGuard no_gradient;
    const torch::Tensor view = memory.narrow(0, at, parameter.numel()).view(parameter.sizes());
    view.copy_(parameter);
    parameter.set_data(view);
    at += parameter.numel();
  }
  return memory;
}

TEST_F(TorchScript, IsTrainedInPlaceAlsoWhenParametersAreViews) {
  const auto network = load(classifier());
  network->eval();
  const torch::Tensor memory = move_into_one_memory(*network, 0);
  const torch::Tensor targets = torch::tensor({0, 1, 2, 0, 1}, torch::kInt64);
  const auto loss = [&] {
    return torch::nn::functional::cross_entropy(network->forward(input_), targets);
  };
  const double before = loss().item<double>();
  for (int step = 0; step < 50; ++step) {
    network->zero_grad();
    loss().backward();
    const torch::NoGradGuard no_gradient;
    std::int64_t at = 0;
    for (const auto& parameter : network->parameters()) {
      memory.narrow(0, at, parameter.numel()).sub_(parameter.grad().flatten(), 0.2);
      at += parameter.numel();
    }
  }
  EXPECT_LT(loss().item<double>(), before / 2);
  EXPECT_TRUE(
      torch::allclose(network->forward(input_), plain_classifier(*network, input_), 1e-5, 1e-6));
}

TEST_F(TorchScript, SavesAFileThatLoadsWithTheSameOutputs) {
  const auto network = load(classifier());
  (void)network->forward(input_);
  const torch::Tensor memory = move_into_one_memory(*network, 1 << 20);
  memory.mul_(1.5);
  save_torchscript(*network, file("trained.pt"));
  EXPECT_LT(std::filesystem::file_size(file("trained.pt")), 100000U) << "only what is used";
  EXPECT_TRUE(network->is_training());

  network->eval();
  const torch::Tensor expected = network->forward(input_);
  auto script = torch::jit::load(file("trained.pt").string());
  EXPECT_TRUE(torch::equal(script.forward({input_}).toTensor(), expected));
  EXPECT_EQ(script.attr("batches").toTensor().item<int>(), 1);

  const auto again = make_torchscript_network(file("trained.pt"), options_);
  for (const auto& parameter : again->parameters()) EXPECT_TRUE(parameter.requires_grad());
  again->eval();
  EXPECT_TRUE(torch::equal(again->forward(input_), expected));
}

TEST_F(TorchScript, KeepsWhatIsFrozenAndSharedAsItIs) {
  auto module = testing::script_module("Tied");
  const torch::Tensor shared = torch::randn({4, 4}).requires_grad_();
  module.register_parameter("first", shared, false);
  module.register_parameter("second", shared, false);
  module.register_parameter("still", torch::randn({3, 4}), false);
  module.define(
      "def forward(self, x):\n"
      "  return torch.linear(torch.linear(x, self.first) + torch.linear(x, self.second),"
      " self.still)\n");
  const auto network = load(module);
  save_torchscript(*network, file("again.pt"));
  const auto again = make_torchscript_network(file("again.pt"), options_);
  EXPECT_THAT(again->named_parameters().keys(), network->named_parameters().keys());
  EXPECT_FALSE(again->named_parameters()["still"].requires_grad());
  EXPECT_TRUE(again->named_parameters()["first"].requires_grad());
  again->parameters().front().detach().zero_();
  again->eval();
  EXPECT_EQ(again->forward(input_).abs().sum().item<double>(), 0) << "both uses are the same";
}

TEST_F(TorchScript, IsSummarized) {
  const auto network = load(classifier());
  const auto summary = summarize(*network, options_.input_shape);
  EXPECT_EQ(summary.parameters, 6 * 4 + 6 + 3 * 6);
  EXPECT_EQ(summary.layers.front().name, "hidden");
  EXPECT_EQ(summary.layers.front().flops, 2 * 6 * 4);
}

TEST_F(TorchScript, RefusesOtherFiles) {
  std::ofstream(file("text.pt")) << "not a network";
  const auto message = [&](const char* name) {
    return message_of<InputError>([&] { (void)make_torchscript_network(file(name), options_); });
  };
  EXPECT_TRUE(says(message("text.pt"), {"text.pt is no TorchScript file", "torch.jit.script"}));
  EXPECT_TRUE(says(message("missing.pt"), {"missing.pt"}));
  EXPECT_TRUE(says(message(""), {"torchscript: "}));
  torch::save(std::vector<torch::Tensor>{torch::zeros({2})}, file("tensors.pt").string());
  EXPECT_TRUE(says(message("tensors.pt"), {"tensors.pt"}));
}

TEST_F(TorchScript, RefusesWhatCantBeTrained) {
  torch::jit::Module nothing("Nothing");
  nothing.define("def forward(self, x):\n  return x\n");
  EXPECT_TRUE(says(refusal(nothing), {"has 0 parameters and none to train"}));

  torch::jit::Module still("Still");
  still.register_parameter("weight", torch::zeros({3, 4}), false);
  still.define("def forward(self, x):\n  return torch.linear(x, self.weight)\n");
  EXPECT_TRUE(says(refusal(still), {"has 1 parameters and none to train"}));
}

TEST_F(TorchScript, RefusesOutputsOfAnotherShape) {
  const auto module = classifier();
  options_.classes = 5;
  EXPECT_TRUE(says(refusal(module), {"gives [2, 3] for a batch [2, 4], expected [2, 5]"}));
  options_ = {.input_shape = {7}, .classes = 3};
  EXPECT_TRUE(says(refusal(module), {"does not work on [2, 7] of Float: ", "RuntimeError: "}));

  options_ = {.input_shape = {4}, .classes = 3};
  auto tuple = testing::script_module("Tuple");
  tuple.register_parameter("weight", torch::zeros({3, 4}, torch::requires_grad()), false);
  tuple.define("def forward(self, x):\n  return torch.linear(x, self.weight), x\n");
  EXPECT_TRUE(says(refusal(tuple), {"gives [2, 3], [2, 4] for a batch [2, 4], expected [2, 3]"}));
}

// pair_script() takes [N, 3] and [N, 2], and gives [N, 4] and [N, 1].
TEST_F(TorchScript, PartsOfAnInputAreTensorsOfItsForward) {
  torch::manual_seed(3);
  auto script = testing::pair_script();
  options_ = {.input_shape = {5},
              .output_shape = {5},
              .input_shapes = {{3}, {2}},
              .output_shapes = {{4}, {1}}};
  const auto network = load(script);
  network->eval();
  const torch::Tensor a = torch::randn({6, 3}), b = torch::randn({6, 2});
  const auto output = network->forward(torch::cat({a, b}, 1));
  script.eval();
  const auto expected = script.forward({a, b}).toTuple();
  EXPECT_TRUE(torch::equal(output.narrow(1, 0, 4), expected->elements()[0].toTensor()));
  EXPECT_TRUE(torch::equal(output.narrow(1, 4, 1), expected->elements()[1].toTensor()));
  output.square().sum().backward();
  for (const auto& parameter : network->parameters()) EXPECT_TRUE(parameter.grad().defined());
  EXPECT_EQ(summarize(*network, options_.input_shape).parameters, 4 * 3 + 4 * 2);

  save_torchscript(*network, file("both.pt"));
  auto again = torch::jit::load(file("both.pt").string());
  EXPECT_TRUE(torch::equal(again.forward({a, b}).toTuple()->elements()[0].toTensor(),
                           expected->elements()[0].toTensor()));
}

TEST_F(TorchScript, PartsHaveTheirShapesAndMemory) {
  auto module = testing::script_module("Shapes");
  module.register_parameter("weight", torch::ones({1}, torch::requires_grad()), false);
  // view() of a tensor that isn't contiguous would fail.
  module.define(
      "def forward(self, image, numbers):\n"
      "  return image.transpose(2, 3).sum(1) * self.weight + numbers.view(-1).sum()\n");
  options_ = {.input_shape = {14}, .output_shape = {3, 2}, .input_shapes = {{2, 2, 3}, {2}}};
  const auto network = load(module);
  const auto input = torch::arange(28, torch::kFloat32).view({2, 14});
  const auto image = input.narrow(1, 0, 12).reshape({2, 2, 2, 3});
  const auto expected = image.transpose(2, 3).sum(1) + input.narrow(1, 12, 2).sum();
  EXPECT_TRUE(torch::equal(network->forward(input), expected));
}

TEST_F(TorchScript, RefusesPartsThatItsForwardDoesNotTake) {
  const auto pair = testing::pair_script();
  options_ = {.input_shape = {5}, .output_shape = {5}};
  EXPECT_TRUE(says(refusal(pair), {"forward takes 2 tensors, but got 1: [2, 5] of Float"}));
  options_.input_shapes = {{3}, {1}, {1}};
  EXPECT_TRUE(says(refusal(pair), {"forward takes 2 tensors, but got 3: [2, 3] of Float, "}));
  options_.input_shapes = {{2}, {3}};
  EXPECT_TRUE(says(refusal(pair), {"does not work on [2, 2] of Float, [2, 3] of Float"}));
  options_.input_shapes = {{3}, {2}};
  EXPECT_TRUE(
      says(refusal(pair), {"gives [2, 4], [2, 1] for a batch [2, 3], [2, 2], expected [2, 5]"}));
  options_.output_shapes = {{3}, {2}};
  EXPECT_TRUE(says(refusal(pair), {"gives [2, 4], [2, 1] for a batch [2, 3], [2, 2], expected "
                                   "[2, 3], [2, 2]"}));
  options_.input_shapes = {{3}, {1}};
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)make_network("mlp", options_); }),
                   {"the input's parts are [[3], [1]], but its shape is [5]"}));
}

TEST_F(TorchScript, OnlyScriptsAreSavedAsScripts) {
  const auto network = make_network("cnn", {.input_shape = {3, 8, 8}, .classes = 2});
  EXPECT_TRUE(says(message_of<Error>([&] { save_torchscript(*network, file("cnn.pt")); }),
                   {"only a network that was made from a TorchScript file"}));
  EXPECT_FALSE(std::filesystem::exists(file("cnn.pt")));
}

}  // namespace
}  // namespace kolo::testing
