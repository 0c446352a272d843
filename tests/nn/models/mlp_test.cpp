#include "kolo/nn/models.h"

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include "kolo/base/error.h"
#include "settings/section.h"
#include "settings/yaml/yaml.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using Sizes = std::vector<std::int64_t>;

// Keys of the model in a configuration.
struct Keys {
  Sizes hidden = {64, 64};
  std::string activation = "relu";
  double dropout = 0;
  bool bias = true;
};

std::shared_ptr<Network> make_mlp(const Keys& keys, const ModelOptions& shapes) {
  const auto mapping = read_yaml_document(
      fmt::format("hidden: [{}]\nactivation: {}\ndropout: {}\nbias: {}\n",
                  fmt::join(keys.hidden, ", "), keys.activation, keys.dropout, keys.bias),
      "mlp");
  const auto models = built_in_models();
  auto own = models.find("mlp").defaults;
  const KnownSettings none;
  SectionReader reader(mapping, "", none);
  own.holder().read(reader);
  return models.make("mlp", std::move(own), shapes);
}

void add_activation(torch::nn::Sequential& layers, std::string_view activation) {
  if (activation == "relu") layers->push_back(torch::nn::ReLU());
  if (activation == "tanh") layers->push_back(torch::nn::Tanh());
  if (activation == "gelu") layers->push_back(torch::nn::GELU());
  if (activation == "silu") layers->push_back(torch::nn::SiLU());
  if (activation == "sigmoid") layers->push_back(torch::nn::Sigmoid());
}

// LibTorch's own layers, made and so drawn in the same order.
torch::nn::Sequential plain_mlp(const Keys& options, std::int64_t inputs, std::int64_t outputs) {
  torch::nn::Sequential layers;
  for (const auto width : options.hidden) {
    layers->push_back(
        torch::nn::Linear(torch::nn::LinearOptions(inputs, width).bias(options.bias)));
    add_activation(layers, options.activation);
    inputs = width;
  }
  layers->push_back(
      torch::nn::Linear(torch::nn::LinearOptions(inputs, outputs).bias(options.bias)));
  return layers;
}

TEST(Mlp, EqualsASequentialToTheBit) {
  for (const std::string activation : {"relu", "tanh", "gelu", "silu", "sigmoid"}) {
    for (const auto& hidden : {Sizes{}, Sizes{5}, Sizes{9, 3, 17}}) {
      for (const bool bias : {true, false}) {
        const Keys options{hidden, activation, 0, bias};
        torch::manual_seed(1);
        const auto network = make_mlp(options, {.input_shape = {2, 3}, .output_shape = {4, 2}});
        torch::manual_seed(1);
        auto plain = plain_mlp(options, 6, 8);
        const auto parameters = network->parameters(), expected = plain->parameters();
        ASSERT_EQ(parameters.size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_TRUE(torch::equal(parameters[i], expected[i]));

        const auto input = torch::randn({7, 2, 3});
        const auto output = network->forward(input);
        const auto reference = plain->forward(input.flatten(1)).view({7, 4, 2});
        EXPECT_TRUE(torch::equal(output, reference)) << activation << " " << hidden;
        const auto slope = torch::randn({7, 4, 2});
        const auto gradients = torch::autograd::grad({output}, parameters, {slope});
        const auto of_plain = torch::autograd::grad({reference}, expected, {slope});
        for (std::size_t i = 0; i < expected.size(); ++i)
          EXPECT_TRUE(torch::equal(gradients[i], of_plain[i])) << activation << " " << i;
      }
    }
  }
}

TEST(Mlp, HasAShapeForClassesAndForNumbers) {
  const auto shape_of = [](const ModelOptions& shapes, const torch::Tensor& input) {
    return make_network("mlp", shapes)->forward(input).sizes().vec();
  };
  const auto images = torch::randn({3, 1, 8, 8});
  EXPECT_EQ(shape_of({.input_shape = {1, 8, 8}, .classes = 10}, images), (Sizes{3, 10}));
  EXPECT_EQ(shape_of({.input_shape = {1, 8, 8}, .output_shape = {5}}, images), (Sizes{3, 5}));
  EXPECT_EQ(shape_of({.input_shape = {1, 8, 8}, .output_shape = {1, 4, 4}}, images),
            (Sizes{3, 1, 4, 4}));
  EXPECT_EQ(shape_of({.input_shape = {6}, .output_shape = {2, 2}}, torch::randn({0, 6})),
            (Sizes{0, 2, 2}))
      << "no samples";
}

TEST(Mlp, RefusesSamplesOfAnotherNumberOfValues) {
  for (const auto& hidden : {Sizes{}, Sizes{5}}) {
    const auto network = make_mlp({.hidden = hidden}, {.input_shape = {2, 3}, .output_shape = {4}});
    EXPECT_EQ(network->forward(torch::zeros({5, 6})).sizes(), (Sizes{5, 4})) << "flat already";
    for (const auto& shape : {Sizes{5, 7}, Sizes{6}, Sizes{}, Sizes{1, 2, 2, 3}})
      EXPECT_TRUE(says(message_of<InputError>([&] { (void)network->forward(torch::zeros(shape)); }),
                       {"expected [N, ...] of 6 values per sample"}))
          << shape;
  }
}

TEST(Mlp, ItsParametersHaveNames) {
  const auto network = make_network("mlp", {.input_shape = {6}, .output_shape = {2}});
  EXPECT_THAT(network->named_parameters().keys(),
              ElementsAre("hidden1.weight", "hidden1.bias", "hidden2.weight", "hidden2.bias",
                          "output.weight", "output.bias"));
  EXPECT_EQ(network->named_parameters()["hidden2.weight"].sizes(), (Sizes{64, 64}));
}

TEST(Mlp, DropsOutAfterEachActivationInTraining) {
  const auto network = make_mlp({.hidden = {400}, .activation = "sigmoid", .dropout = .25},
                                {.input_shape = {3}, .output_shape = {400}});
  {
    const torch::NoGradGuard no_gradient;  // so that the hidden values are seen
    network->named_parameters()["output.weight"].copy_(torch::eye(400));
    network->named_parameters()["output.bias"].zero_();
  }
  torch::manual_seed(2);
  const auto input = torch::randn({50, 3});
  const auto fraction = network->forward(input).eq(0).to(torch::kFloat).mean().item<double>();
  EXPECT_NEAR(fraction, .25, .02);
  network->eval();
  EXPECT_EQ(network->forward(input).eq(0).sum().item<int>(), 0);
}

TEST(Mlp, RefusesWhatItCantBe) {
  const auto refusal = [](const Sizes& output_shape) {
    const ModelOptions shapes{.input_shape = {3}, .output_shape = output_shape};
    return message_of<InputError>([&] { (void)make_network("mlp", shapes); });
  };
  EXPECT_TRUE(says(refusal({2, 0}), {"model mlp: the output's shape is [2, 0]"}));
  EXPECT_TRUE(says(refusal({}), {"0 classes, expected 1 or more"}));
}

}  // namespace
}  // namespace kolo::testing
