#include "kolo/nn/weights.h"

#include <limits>

#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "kolo/base/error.h"
#include "kolo/nn/models.h"
#include "kolo/nn/network.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo {
namespace {

using ::testing::ElementsAre;

std::shared_ptr<Network> small_resnet() {
  torch::manual_seed(1);
  return make_network("resnet_small", {.input_shape = {3, 8, 8}, .classes = 4});
}

// By the kinds of the layers, as Keras has its kernel_regularizer.
torch::Tensor plain_penalty(const torch::nn::Module& module, double factor) {
  torch::Tensor sum = torch::zeros({}, torch::kFloat64);
  for (const auto& each : module.modules()) {
    if (const auto* convolution = each->as<torch::nn::Conv2d>())
      sum = sum + convolution->weight.to(torch::kFloat64).square().sum();
    if (const auto* linear = each->as<torch::nn::Linear>())
      sum = sum + linear->weight.to(torch::kFloat64).square().sum();
  }
  return factor * sum;
}

TEST(L2Penalty, IsThatOfConvolutionsAndLinearLayers) {
  const auto network = small_resnet();
  const torch::Tensor penalty = l2_penalty(*network, 5e-5);
  const torch::Tensor expected = plain_penalty(*network, 5e-5);
  EXPECT_EQ(penalty.dim(), 0);
  EXPECT_NEAR(penalty.item<double>(), expected.item<double>(), 1e-6 * expected.item<double>());

  (penalty * 3).backward();
  for (const auto& item : network->named_parameters()) {
    const torch::Tensor& gradient = item.value().grad();
    if (item.value().dim() == 1) {
      EXPECT_FALSE(gradient.defined()) << item.key();
    } else {
      EXPECT_TRUE(torch::allclose(gradient, item.value() * (3 * 2 * 5e-5), 1e-5, 1e-9))
          << item.key();
    }
  }
}

TEST(L2Penalty, AddsToTheLoss) {
  const auto network = small_resnet();
  const auto parameters = network->parameters();
  const torch::Tensor input = torch::randn({4, 3, 8, 8});
  network->eval();
  const auto loss = [&] { return network->forward(input).square().mean(); };
  const auto with = torch::autograd::grad({loss() + l2_penalty(*network, 0.01)}, parameters);
  const auto plain = torch::autograd::grad({loss() + plain_penalty(*network, 0.01)}, parameters);
  for (std::size_t i = 0; i < with.size(); ++i)
    EXPECT_TRUE(torch::allclose(with[i], plain[i], 1e-5, 1e-7)) << i;
}

TEST(L2Penalty, TakesWeightsInAnyMemoryFormat) {
  torch::nn::Conv2d convolution(6, 5, 3);
  const double expected = plain_penalty(*convolution, 1).item<double>();
  convolution->weight.set_data(convolution->weight.contiguous(torch::MemoryFormat::ChannelsLast));
  const torch::Tensor penalty = l2_penalty(*convolution, 1);
  EXPECT_NEAR(penalty.item<double>(), expected, 1e-5 * expected);
  penalty.backward();
  EXPECT_TRUE(torch::allclose(convolution->weight.grad(), 2 * convolution->weight));
}

TEST(L2Penalty, CountsTiedWeightsOnce) {
  torch::nn::Linear linear(3, 3);
  const torch::nn::Sequential twice(linear, linear);
  EXPECT_EQ(distinct_parameters(*twice).size(), 2U);
  EXPECT_TRUE(l2_penalty(*twice, 1).equal(l2_penalty(*linear, 1)));
}

TEST(L2Penalty, LeavesFrozenWeightsAloneAndMayBeNothing) {
  torch::nn::Linear linear(2, 3);
  linear->weight.set_requires_grad(false);
  EXPECT_EQ(l2_penalty(*linear, 1).item<double>(), 0);
  EXPECT_EQ(l2_penalty(*small_resnet(), 0).item<double>(), 0);
  for (const double factor :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_TRUE(says(testing::message_of<InputError>([&] { (void)l2_penalty(*linear, factor); }),
                     {"an L2 factor of"}));
  }
}

TEST(DecayedParameters, AreWeightsButNotBiasesOrNorms) {
  torch::nn::Sequential layers(torch::nn::Conv2d(1, 2, 3), torch::nn::BatchNorm2d(2),
                               torch::nn::Linear(4, 5));
  EXPECT_THAT(decayed_parameters(*layers), ElementsAre(true, false, false, false, true, false));
}

}  // namespace
}  // namespace kolo
