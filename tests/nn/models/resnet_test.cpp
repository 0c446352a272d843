#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/nn/models.h"
#include "nn/models/same_network.h"

namespace kolo::testing {
namespace {

// The tutorial's bottleneck: batch norms of blocks with a convolution on the shortcut keep Keras's
// epsilon.
torch::Tensor plain_bottleneck(const Parameters& p, const std::string& block, torch::Tensor x,
                               std::int64_t stride, bool projects) {
  const double epsilon = projects ? 1e-3 : 1e-5;
  const std::string path = block + ".residual.";
  torch::Tensor y = plain_convolution(p, path + "convolution1", x, stride, 0);
  y = torch::relu(plain_batch_norm(p, path + "norm1", y, epsilon));
  y = plain_convolution(p, path + "convolution2", y, 1, 1);
  y = torch::relu(plain_batch_norm(p, path + "norm2", y, epsilon));
  y = plain_convolution(p, path + "convolution3", y, 1, 0);
  y = plain_batch_norm(p, path + "norm3", y, epsilon);
  if (projects) {
    x = plain_convolution(p, block + ".shortcut.convolution", x, stride, 0);
    x = plain_batch_norm(p, block + ".shortcut.norm", x, epsilon);
  }
  return torch::relu(x + y);
}

torch::Tensor plain_basic_block(const Parameters& p, const std::string& block, torch::Tensor x,
                                std::int64_t stride) {
  torch::Tensor y = plain_convolution(p, block + ".residual.convolution1", x, stride, 1);
  y = torch::relu(plain_batch_norm(p, block + ".residual.norm1", y, 1e-5));
  y = plain_convolution(p, block + ".residual.convolution2", y, 1, 1);
  y = plain_batch_norm(p, block + ".residual.norm2", y, 1e-5);
  if (stride != 1) {
    x = plain_convolution(p, block + ".shortcut.convolution", x, stride, 0);
    x = plain_batch_norm(p, block + ".shortcut.norm", x, 1e-5);
  }
  return torch::relu(x + y);
}

torch::Tensor plain_large_stem(const Parameters& p, torch::Tensor x, double epsilon) {
  x = plain_convolution(p, "stem.convolution", x, 2, 3);
  x = torch::relu(plain_batch_norm(p, "stem.norm", x, epsilon));
  // Keras pads with zeros.
  return torch::max_pool2d(torch::constant_pad_nd(x, {1, 1, 1, 1}, 0), 3, 2);
}

torch::Tensor plain_head(const Parameters& p, const torch::Tensor& x) {
  return torch::addmm(p["output.bias"], x.mean({2, 3}), p["output.weight"].t());
}

torch::Tensor plain_resnet_small(const Parameters& p, torch::Tensor x) {
  x = plain_convolution(p, "stem.convolution", x, 1, 1);
  x = torch::relu(plain_batch_norm(p, "stem.norm", x, 1e-3));
  for (const char* stage : {"stage1", "stage2", "stage3", "stage4"}) {
    x = plain_bottleneck(p, fmt::format("{}.block1", stage), x, 2, true);
    x = plain_bottleneck(p, fmt::format("{}.block2", stage), x, 1, false);
  }
  return plain_head(p, x);
}

torch::Tensor plain_resnet50(const Parameters& p, torch::Tensor x) {
  x = plain_large_stem(p, x, 1e-3);
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 1; stage <= 4; ++stage) {
    x = plain_bottleneck(p, fmt::format("stage{}.block1", stage), x, stage == 1 ? 1 : 2, true);
    for (int block = 2; block <= blocks[stage - 1]; ++block)
      x = plain_bottleneck(p, fmt::format("stage{}.block{}", stage, block), x, 1, false);
  }
  return plain_head(p, x);
}

torch::Tensor plain_resnet34(const Parameters& p, torch::Tensor x) {
  x = plain_large_stem(p, x, 1e-5);
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 1; stage <= 4; ++stage) {
    for (int block = 1; block <= blocks[stage - 1]; ++block) {
      x = plain_basic_block(p, fmt::format("stage{}.block{}", stage, block), x,
                            stage > 1 && block == 1 ? 2 : 1);
    }
  }
  return plain_head(p, x);
}

struct ResNetModel {
  const char* name;
  std::int64_t classes;
  std::int64_t parameters;  // for three channels
  std::int64_t convolutions;
  torch::Tensor (*plain)(const Parameters&, torch::Tensor);
};

class ResNet : public ::testing::TestWithParam<ResNetModel> {
 protected:
  void SetUp() override { torch::manual_seed(5); }
};

TEST_P(ResNet, EqualsTheSameNetworkWrittenPlainly) {
  // Odd sizes show on which side padding goes.
  const auto network = make_network(GetParam().name, {.input_shape = {2, 45, 38}, .classes = 7});
  // Biases that aren't zero count, too.
  for (const auto& parameter : network->parameters()) {
    const torch::NoGradGuard no_gradient;
    if (parameter.dim() == 1) parameter.add_(torch::rand_like(parameter));
  }
  testing::expect_same_network(*network, GetParam().plain, torch::randn({3, 2, 45, 38}));
}

TEST_P(ResNet, HasTheParametersCountedByHandAndStartsAsKerasLayersDo) {
  const auto network =
      make_network(GetParam().name, {.input_shape = {3, 64, 64}, .classes = GetParam().classes});
  EXPECT_EQ(testing::parameter_count(*network), GetParam().parameters);

  std::int64_t convolutions = 0;
  for (const auto& module : network->modules()) {
    if (const auto* convolution = module->as<torch::nn::Conv2d>()) {
      ++convolutions;
      const torch::Tensor& weight = convolution->weight;
      const double expected = std::sqrt(2.0 * weight.size(0) / weight.numel());
      EXPECT_NEAR(weight.std().item<double>(), expected, 0.06 * expected);
      EXPECT_NEAR(weight.mean().item<double>(), 0, 0.06 * expected);
      EXPECT_LE(weight.abs().max().item<double>(), 2.0001 * expected / .87962566103423978);
      if (!convolution->bias.defined()) continue;
      EXPECT_EQ(convolution->bias.count_nonzero().item<int>(), 0);
    }
  }
  EXPECT_EQ(convolutions, GetParam().convolutions);
  const auto parameters = network->named_parameters();
  EXPECT_EQ(parameters["output.bias"].count_nonzero().item<int>(), 0);
  const torch::Tensor& output = parameters["output.weight"];
  const double bound = std::sqrt(6.0 / static_cast<double>(output.size(0) + output.size(1)));
  EXPECT_LE(output.abs().max().item<double>(), bound);
  EXPECT_NEAR(output.std().item<double>(), bound / std::sqrt(3.0), 0.03 * bound);
}

TEST_P(ResNet, WorksOnOnePixelAndTheMomentumOptionReachesEveryBatchNormInKerasSense) {
  const auto network = make_network(
      GetParam().name, {.input_shape = {1, 1, 1}, .classes = 2, .batch_norm_momentum = 0.75});
  std::int64_t norms = 0;
  for (const auto& module : network->modules()) {
    if (const auto* norm = module->as<torch::nn::BatchNorm2d>()) {
      ++norms;
      EXPECT_DOUBLE_EQ(norm->options.momentum().value(), 0.25);
    }
  }
  EXPECT_EQ(norms, GetParam().convolutions);
  network->eval();
  EXPECT_EQ(network->forward(torch::zeros({2, 1, 1, 1})).sizes(),
            (std::vector<std::int64_t>{2, 2}));
}

INSTANTIATE_TEST_SUITE_P(
    Models, ResNet,
    // Weights (inputs x outputs x kernel), biases and two values per channel for each batch norm,
    // added up block by block.
    ::testing::Values(ResNetModel{"resnet_small", 10, 7690826, 29, plain_resnet_small},
                      ResNetModel{"resnet50", 1000, 25583592, 53, plain_resnet50},
                      ResNetModel{"resnet34", 1000, 21797672, 36, plain_resnet34}),
    [](const auto& each) { return std::string(each.param.name); });

TEST(ResNetSmall, BatchNormsHaveTheTutorialsMomentumAndEpsilon) {
  const auto network = make_network("resnet_small", {.input_shape = {3, 32, 32}, .classes = 10});
  std::int64_t norms = 0;
  for (const auto& item : network->named_modules()) {
    const auto* norm = item.value()->as<torch::nn::BatchNorm2d>();
    if (norm == nullptr) continue;
    ++norms;
    const bool identity = item.key().find("block2") != std::string::npos;
    EXPECT_DOUBLE_EQ(norm->options.eps(), identity ? 1e-5 : 1e-3) << item.key();
    EXPECT_NEAR(norm->options.momentum().value(), identity ? 0.1 : 0.01, 1e-15) << item.key();
  }
  EXPECT_EQ(norms, 29);
}

}  // namespace
}  // namespace kolo::testing
