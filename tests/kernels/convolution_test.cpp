// Every kernel against LibTorch's convolution in float64, over random geometries.
#include <random>

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "convolution_problem.h"
#include "kernels/convolution_kernel.h"
#include "kernels/fused.h"
#include "kolo/base/error.h"
#include "kolo/kernels/convolution.h"

namespace kolo {
namespace {

TEST_P(ConvolutionKernelTest, EqualsLibTorchs) {
  const auto& [kernel_case, dimensions, threads] = GetParam();
  std::mt19937 random(static_cast<unsigned>(7 * dimensions) + static_cast<unsigned>(threads));
  for (int round = 0; round < 25; ++round) {
    const auto geometry = kernel_case.geometry(random, dimensions);
    SCOPED_TRACE(text_of(geometry));
    const Problem problem(geometry);
    const auto kernel = kernel_case.make(geometry);
    if (!kernel) continue;  // nothing vectorized: LibTorch's is taken
    const auto values = problem.by(*kernel), reference = problem.reference();
    const auto compare = [&](const Tensor& value, const Tensor& of_torch, const char* what) {
      if (kernel_case.rounds)
        expect_nearly_ideal(value, of_torch, what);
      else
        expect_close(value, of_torch, what);
    };
    compare(values.output, reference.output, "output");
    compare(values.of_input, reference.of_input, "gradient of the input");
    compare(values.of_weight, reference.of_weight, "gradient of the weight");
    expect_close(values.of_bias, reference.of_bias, "gradient of the bias");
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, ConvolutionKernelTest,
                         testing::Combine(testing::ValuesIn(kernel_cases()),
                                          testing::Values<std::size_t>(1, 2, 3),
                                          testing::Values(1, 2)),
                         case_name);

using Options = torch::nn::Conv2dOptions;
using Plane = Layers<Convolution2d, torch::nn::Conv2d, Options>;

TEST(Convolution2d, IsTorchsForWholeAndLastBatchesInAnyLayout) {
  torch::manual_seed(2);
  Plane layers(Options(3, 8, 3).stride(2).padding(1));
  for (const std::int64_t batch : {4, 4, 1, 3, 2, 5, 4}) {
    layers.expect_alike(torch::randn({batch, 3, 9, 7}));
    layers.expect_alike(torch::randn({batch, 3, 9, 7}).contiguous(at::MemoryFormat::ChannelsLast));
    layers.expect_alike(torch::randn({batch, 9, 3, 7}).transpose(1, 2));
  }
}

TEST(Convolution2d, IsTorchsWhereThereAreFewPositions) {
  torch::manual_seed(3);
  Plane layers(Options(128, 128, 3).padding(1).bias(false));
  layers.expect_alike(torch::randn({8, 128, 2, 2}) / 8);
  layers.expect_alike(torch::randn({8, 128, 1, 3}) / 8);
}

// Whole batches have an image a lane, others don't.
TEST(Convolution2d, IsTorchsForOddChannelsOneAfterAnother) {
  torch::manual_seed(5);
  Plane first(Options(3, 10, 5)), second(Options(10, 7, 3));
  for (const std::int64_t batch : {32, 7, 16, 48}) {
    const auto x = torch::randn({batch, 3, 12, 11});
    first.expect_alike(x);
    second.expect_alike(first.ours(x).detach());
    second.expect_alike(torch::randn({batch, 10, 8, 7}).contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST(Convolution2d, LeavesTheRestToTorch) {
  torch::manual_seed(4);
  const auto x = torch::randn({2, 4, 8, 8});
  Plane(Options(4, 6, 3).groups(2)).expect_alike(x);
  Plane(Options(4, 6, 3).dilation(2)).expect_alike(x);
  Plane(Options(4, 6, 3).padding(torch::kSame)).expect_alike(x);
  Plane(Options(4, 6, 3).padding(1).padding_mode(torch::kReflect)).expect_alike(x);
  Plane plain(Options(4, 6, 3));
  plain.expect_alike(torch::empty({0, 4, 8, 8}));
  plain.expect_alike(torch::randn({4, 8, 8}));  // without a batch
  plain.ours->to(torch::kDouble);
  plain.expect_alike(x.to(torch::kDouble));
}

TEST(Convolution2d, RefusesWhatTorchRefuses) {
  Convolution2d layer(Options(4, 6, 3));
  EXPECT_THROW((void)layer(torch::randn({2, 5, 8, 8})), c10::Error);
  EXPECT_THROW((void)layer(torch::randn({2, 4, 2, 8})), c10::Error);
}

TEST(Convolution2d, GivesGradientsToWhatWantsThem) {
  Convolution2d layer(Options(2, 3, 3));
  layer->weight.requires_grad_(false);
  layer(torch::randn({2, 2, 5, 5})).sum().backward();  // an expanded gradient
  EXPECT_FALSE(layer->weight.grad().defined());
  EXPECT_TRUE(layer->bias.grad().allclose(torch::full({3}, 2. * 9)));
  const torch::NoGradGuard no_gradient;
  EXPECT_FALSE(layer(torch::randn({2, 2, 5, 5})).requires_grad());
}

TEST(Convolution2d, HasNoSecondDerivatives) {
  Convolution2d layer(Options(2, 3, 3));
  keep_taps_first(layer->weight);  // computed by a kernel of kolo's, with oneDNN or without
  const auto x = torch::randn({1, 2, 4, 4}).requires_grad_();
  const auto y = layer(x).sum();
  EXPECT_THROW((void)torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true), Error);
}

TEST(PlainKernels, AreWantedWhileAGuardLives) {
  EXPECT_FALSE(PlainKernels::are_wanted());
  {
    const PlainKernels outer;
    { const PlainKernels inner; }
    EXPECT_TRUE(PlainKernels::are_wanted());
  }
  EXPECT_FALSE(PlainKernels::are_wanted());
}

TEST(ConvolutionKernels, ComputeAWeightsGradientWhereItIsWanted) {
  torch::manual_seed(8);
  for (const bool taps_are_first : {false, true}) {
    if (!taps_are_first && convolution_implementation(3).empty()) continue;  // LibTorch computes it
    Convolution3d layer(torch::nn::Conv3dOptions(16, 32, 4).stride(2).padding(1));
    if (taps_are_first) keep_taps_first(layer->weight);
    const Destination destination(layer->weight);
    const auto input = torch::randn({2, 16, 4, 4, 4});
    layer(input).square().sum().backward();
    EXPECT_EQ(layer->weight.grad().data_ptr(), destination.memory().data_ptr())
        << "neither moved nor copied";
    const Tensor made = layer->weight.grad().clone();
    const auto weight = layer->weight.detach().to(torch::kDouble).requires_grad_();
    const auto bias = layer->bias.detach().to(torch::kDouble);
    torch::conv3d(input.to(torch::kDouble), weight, bias, 2, 1).square().sum().backward();
    expect_close(made, weight.grad(), "weight's gradient");
  }
}

}  // namespace
}  // namespace kolo
