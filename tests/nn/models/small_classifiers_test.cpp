#include <cmath>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/nn/functional.h>
#include <torch/nn/modules/dropout.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/base/error.h"
#include "kolo/nn/models.h"
#include "nn/models/same_network.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

namespace F = torch::nn::functional;

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

torch::Tensor plain_cnn(const Parameters& p, torch::Tensor x) {
  for (const char* name : {"convolution1", "convolution2", "convolution3"})
    x = torch::max_pool2d(torch::relu(plain_convolution(p, name, x, 1, 1)), 2);
  x = x.reshape({x.size(0), -1});
  x = torch::relu(torch::addmm(p["hidden.bias"], x, p["hidden.weight"].t()));
  return torch::addmm(p["output.bias"], x, p["output.weight"].t());
}

struct SmallClassifier {
  const char* name;
  std::int64_t channels, size;  // of its usual images
  std::int64_t parameters;      // for these and 10 classes, counted by hand
  std::int64_t smallest;        // image
  int dropouts;                 // layers
  torch::Tensor (*plain)(const Parameters&, torch::Tensor);

  [[nodiscard]] ModelOptions options() const {
    return {.input_shape = {channels, size, size}, .classes = 10};
  }
  [[nodiscard]] torch::Tensor input() const { return torch::randn({4, channels, size, size}); }
};

class SmallClassifiers : public ::testing::TestWithParam<SmallClassifier> {
 protected:
  void SetUp() override { torch::manual_seed(3); }
  [[nodiscard]] static std::shared_ptr<Network> make(const ModelOptions& options) {
    return make_network(GetParam().name, options);
  }
};

TEST_P(SmallClassifiers, HaveTheParametersCountedByHand) {
  EXPECT_EQ(testing::parameter_count(*make(GetParam().options())), GetParam().parameters);
}

// Pooling drops what is left over at odd sizes.
TEST_P(SmallClassifiers, EqualTheSameNetworkWrittenPlainly) {
  const auto network = make({.input_shape = {2, 29, 26}, .classes = 5, .dropout = 0});
  for (auto& parameter : network->parameters()) {
    parameter.set_requires_grad(true);
    if (parameter.dim() == 1) parameter.data().uniform_(-.1, .1);
  }
  testing::expect_same_network(*network, GetParam().plain, torch::randn({3, 2, 29, 26}));
}

TEST_P(SmallClassifiers, DropOutInTrainingAsTheyAreTold) {
  const auto input = GetParam().input();
  const auto repeats = [&](Network& network) {
    return torch::equal(network.forward(input), network.forward(input));
  };
  const bool drops_by_itself = std::string(GetParam().name).starts_with("mnist");
  EXPECT_EQ(repeats(*make(GetParam().options())), !drops_by_itself);
  if (GetParam().dropouts == 0) return;
  auto options = GetParam().options();
  options.dropout = 0.125;
  const auto network = make(options);
  EXPECT_FALSE(repeats(*network));
  network->eval();
  EXPECT_TRUE(repeats(*network));
  int layers = 0;
  for (const auto& module : network->modules()) {
    const auto* const dropout = module->as<torch::nn::Dropout>();
    const auto* const channels = module->as<torch::nn::Dropout2d>();
    if (dropout == nullptr && channels == nullptr) continue;
    EXPECT_EQ((dropout != nullptr ? dropout->options : channels->options).p(), 0.125);
    ++layers;
  }
  EXPECT_EQ(layers, GetParam().dropouts);
}

TEST_P(SmallClassifiers, TakeTheSmallestImageAndRefuseSmallerOnes) {
  const std::int64_t size = GetParam().smallest;
  const auto refusal = [](const std::vector<std::int64_t>& shape) {
    return message_of<InputError>([&] { (void)make({.input_shape = shape, .classes = 2}); });
  };
  const auto network = make({.input_shape = {1, size, size}, .classes = 2});
  EXPECT_EQ(network->forward(torch::randn({2, 1, size, size})).numel(), 4);
  EXPECT_TRUE(says(refusal({1, size, size - 1}),
                   {fmt::format("images of {}x{} pixels are too small, expected at least {}x{}",
                                size, size - 1, size, size)}));
  EXPECT_TRUE(says(refusal({784}), {"shape is [784], expected an image"}));
}

INSTANTIATE_TEST_SUITE_P(
    Models, SmallClassifiers,
    ::testing::Values(SmallClassifier{"mnist_net", 1, 28, 21840, 16, 2, plain_mnist_net},
                      SmallClassifier{"mnist_cnn", 1, 28, 1199882, 6, 2, plain_mnist_cnn},
                      SmallClassifier{"cnn", 3, 32, 156074, 8, 1, plain_cnn}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(SmallCnn, SeesTheSameWhereverItLies) {
  torch::manual_seed(7);
  const auto network = make_network("small_cnn", {.input_shape = {3, 64, 64}, .classes = 10});
  EXPECT_EQ(testing::parameter_count(*network), 98970);
  network->eval();
  const auto thing = torch::randn({1, 3, 16, 16});
  const auto seen_at = [&](std::int64_t row, std::int64_t column) {
    auto image = torch::zeros({1, 3, 64, 80});
    image.slice(2, row, row + 16).slice(3, column, column + 16).copy_(thing);
    return network->forward(image);
  };
  EXPECT_TRUE(torch::allclose(seen_at(24, 16), seen_at(16, 40), 1e-4, 1e-5));
  EXPECT_FALSE(torch::allclose(seen_at(24, 16), network->forward(torch::zeros({1, 3, 64, 64}))));
  const ModelOptions flat{.input_shape = {3, 7, 64}, .classes = 2};
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)make_network("small_cnn", flat); }),
                   {"small_cnn", "at least 8x8"}));
}

TEST(Cnn, StartsAsKerasLayersDo) {
  torch::manual_seed(7);
  const auto network = make_network("cnn", {.input_shape = {3, 32, 32}, .classes = 10});
  for (const auto& item : network->named_parameters()) {
    const torch::Tensor& parameter = item.value();
    if (parameter.dim() == 1) {
      EXPECT_EQ(parameter.count_nonzero().item<int>(), 0) << item.key();
      continue;
    }
    const auto kernel = parameter.numel() / parameter.size(0) / parameter.size(1);
    const double bound =
        std::sqrt(6.0 / static_cast<double>(kernel * (parameter.size(0) + parameter.size(1))));
    EXPECT_LE(parameter.abs().max().item<double>(), bound) << item.key();
    EXPECT_NEAR(parameter.std().item<double>(), bound / std::sqrt(3.0), 0.06 * bound) << item.key();
  }
}

}  // namespace
}  // namespace kolo::testing
