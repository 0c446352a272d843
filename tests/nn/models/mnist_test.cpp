#include <gmock/gmock.h>
#include <torch/nn/functional.h>
#include <torch/nn/modules/dropout.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/base/error.h"
#include "kolo/nn/models.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo {
namespace {

namespace F = torch::nn::functional;
using ::testing::ElementsAre;
using testing::message_of;

using Parameters = torch::OrderedDict<std::string, torch::Tensor>;

ModelOptions mnist_options() {
  return {.input_shape = {1, 28, 28}, .classes = 10};
}

// The networks once more, as plain function calls without dropout.
torch::Tensor plain_mnist_net(const Parameters& p, torch::Tensor x) {
  x = F::conv2d(x, p["conv1.weight"], F::Conv2dFuncOptions().bias(p["conv1.bias"]));
  x = F::relu(F::max_pool2d(x, F::MaxPool2dFuncOptions(2)));
  x = F::conv2d(x, p["conv2.weight"], F::Conv2dFuncOptions().bias(p["conv2.bias"]));
  x = F::relu(F::max_pool2d(x, F::MaxPool2dFuncOptions(2))).reshape({x.size(0), -1});
  x = F::relu(F::linear(x, p["fc1.weight"], p["fc1.bias"]));
  return F::linear(x, p["fc2.weight"], p["fc2.bias"]);
}

torch::Tensor plain_mnist_cnn(const Parameters& p, torch::Tensor x) {
  x = F::relu(F::conv2d(x, p["conv1.weight"], F::Conv2dFuncOptions().bias(p["conv1.bias"])));
  x = F::relu(F::conv2d(x, p["conv2.weight"], F::Conv2dFuncOptions().bias(p["conv2.bias"])));
  x = F::max_pool2d(x, F::MaxPool2dFuncOptions(2)).reshape({x.size(0), -1});
  x = F::relu(F::linear(x, p["fc1.weight"], p["fc1.bias"]));
  return F::linear(x, p["fc2.weight"], p["fc2.bias"]);
}

struct MnistModel {
  const char* name;
  std::int64_t parameters;
  std::int64_t minimum_size;
  torch::Tensor (*plain)(const Parameters&, torch::Tensor);
};

class Mnist : public ::testing::TestWithParam<MnistModel> {
 protected:
  void SetUp() override { torch::manual_seed(3); }
  [[nodiscard]] static std::shared_ptr<Network> make(const ModelOptions& options) {
    return make_network(GetParam().name, options);
  }
};

TEST_P(Mnist, HasTheParametersOfTheOriginal) {
  const auto network = make(mnist_options());
  std::int64_t count = 0;
  for (const auto& parameter : network->parameters()) count += parameter.numel();
  EXPECT_EQ(count, GetParam().parameters);
  EXPECT_THAT(network->named_parameters().keys(),
              ElementsAre("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight",
                          "fc1.bias", "fc2.weight", "fc2.bias"));
}

TEST_P(Mnist, OtherChannelsSizesAndClasses) {
  const auto network = make({.input_shape = {3, 32, 47}, .classes = 7});
  network->eval();
  const torch::Tensor input = torch::randn({2, 3, 32, 47});
  const torch::Tensor output = network->forward(input);
  EXPECT_EQ(output.sizes(), (std::vector<std::int64_t>{2, 7}));
  EXPECT_TRUE(
      torch::allclose(output, GetParam().plain(network->named_parameters(), input), 1e-6, 1e-6));
}

TEST_P(Mnist, DropsOutInTrainingUnlessTurnedOff) {
  const torch::Tensor input = torch::randn({4, 1, 28, 28});
  const auto network = make(mnist_options());
  EXPECT_FALSE(torch::equal(network->forward(input), network->forward(input)));

  auto options = mnist_options();
  options.dropout = 0;
  const auto certain = make(options);
  ASSERT_TRUE(certain->is_training());
  const torch::Tensor output = certain->forward(input);
  EXPECT_TRUE(
      torch::allclose(output, GetParam().plain(certain->named_parameters(), input), 1e-6, 1e-6));
}

TEST_P(Mnist, TheDropoutOptionReachesEveryDropoutLayer) {
  auto options = mnist_options();
  options.dropout = 0.125;
  int layers = 0;
  for (const auto& module : make(options)->modules()) {
    if (const auto* dropout = module->as<torch::nn::Dropout>()) {
      EXPECT_EQ(dropout->options.p(), 0.125);
      ++layers;
    } else if (const auto* channels = module->as<torch::nn::Dropout2d>()) {
      EXPECT_EQ(channels->options.p(), 0.125);
      ++layers;
    }
  }
  EXPECT_EQ(layers, 2);
}

TEST_P(Mnist, EveryParameterGetsAGradient) {
  const auto network = make(mnist_options());
  network->forward(torch::randn({8, 1, 28, 28})).square().sum().backward();
  for (const auto& parameter : network->named_parameters()) {
    ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
    EXPECT_GT(parameter.value().grad().abs().sum().item<double>(), 0) << parameter.key();
  }
}

TEST_P(Mnist, TheSeedDeterminesTheParameters) {
  torch::manual_seed(42);
  const auto first = make(mnist_options())->parameters();
  torch::manual_seed(42);
  const auto again = make(mnist_options())->parameters();
  torch::manual_seed(43);
  const auto other = make(mnist_options())->parameters();
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_TRUE(torch::equal(first[i], again[i])) << i;
    EXPECT_FALSE(torch::equal(first[i], other[i])) << i;
  }
}

TEST_P(Mnist, TheSmallestImageWorksAndSmallerOnesAreRefused) {
  const std::int64_t size = GetParam().minimum_size;
  const auto network = make({.input_shape = {1, size, size}, .classes = 2});
  EXPECT_EQ(network->forward(torch::zeros({1, 1, size, size})).numel(), 2);
  EXPECT_TRUE(says(message_of<InputError>([&] {
                     (void)make({.input_shape = {1, size, size - 1}, .classes = 2});
                   }),
                   {"too small, expected at least " + std::to_string(size) + "x"}));
  EXPECT_TRUE(says(message_of<InputError>([] { (void)make({.input_shape = {784}, .classes = 2}); }),
                   {"shape is [784], expected an image"}));
}

INSTANTIATE_TEST_SUITE_P(Models, Mnist,
                         ::testing::Values(MnistModel{"mnist_net", 21840, 16, plain_mnist_net},
                                           MnistModel{"mnist_cnn", 1199882, 6, plain_mnist_cnn}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace kolo
