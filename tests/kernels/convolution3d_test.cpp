// The 3-D layers, transposed and not, beside torch::nn's of the same weights.
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "convolution_problem.h"
#include "kernels/convolution_kernel.h"
#include "kolo/kernels/autocast.h"
#include "kolo/kernels/convolution.h"

namespace kolo {
namespace {

using Down = Layers<Convolution3d, torch::nn::Conv3d, torch::nn::Conv3dOptions>;
using Up =
    Layers<ConvolutionTranspose3d, torch::nn::ConvTranspose3d, torch::nn::ConvTranspose3dOptions>;

class Convolution3dTest : public testing::TestWithParam<std::tuple<bool, int>> {
 protected:
  Convolution3dTest() { torch::manual_seed(1); }
  [[nodiscard]] static bool by_taps() { return std::get<0>(GetParam()); }

 private:
  Threads threads_{std::get<1>(GetParam())};
};

TEST_P(Convolution3dTest, EqualsTorchsOverRandomShapes) {
  std::mt19937 random(by_taps() ? 5 : 6);
  const auto up_to = [&](std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(random);
  };
  for (int round = 0; round < 20; ++round) {
    const auto inputs = up_to(1, 40), outputs = up_to(1, 40), kernel = up_to(1, 4);
    const auto stride = up_to(1, 3), padding = up_to(0, kernel - 1), batch = up_to(1, 3);
    const bool has_bias = up_to(0, 1) == 1;
    const auto least = std::max<std::int64_t>(1, kernel - 2 * padding);
    const auto length = [&] { return up_to(least, least + 4); };
    // A transposed one makes at least one voxel of two.
    const auto x = torch::randn({batch, inputs, 1 + length(), 1 + length(), 1 + length()});
    SCOPED_TRACE(fmt::format("{} to {} channels, kernel {}, stride {}, padding {}", inputs, outputs,
                             kernel, stride, padding));
    const auto with = [&](auto options) {
      return options.stride(stride).padding(padding).bias(has_bias);
    };
    Down(with(torch::nn::Conv3dOptions(inputs, outputs, kernel)), by_taps()).expect_alike(x);
    if (stride < kernel || padding == 0) {
      Up(with(torch::nn::ConvTranspose3dOptions(inputs, outputs, kernel)), by_taps())
          .expect_alike(x);
    }
    if (HasFailure()) return;
  }
}

// As deep in a U-Net: eight taps of 64 reach the one voxel there is.
TEST_P(Convolution3dTest, EqualsTorchsWhereMostTapsFallOnPadding) {
  const auto down = torch::nn::Conv3dOptions(64, 96, 4).stride(2).padding(1);
  const auto up = torch::nn::ConvTranspose3dOptions(96, 64, 4).stride(2).padding(1);
  Down(down, by_taps()).expect_alike(torch::randn({2, 64, 2, 2, 2}));
  Up(up, by_taps()).expect_alike(torch::randn({2, 96, 1, 1, 1}));
  Up(up, by_taps()).expect_alike(torch::randn({1, 96, 2, 1, 3}));
}

// oneDNN 2.6 gets this wrong.
TEST_P(Convolution3dTest, EqualsTorchsWherePaddingExceedsTheStride) {
  Down layers(torch::nn::Conv3dOptions(18, 21, {4, 1, 2}).stride({2, 3, 2}).padding({3, 0, 1}),
              by_taps());
  layers.expect_alike(torch::randn({8, 18, 4, 2, 1}));
}

INSTANTIATE_TEST_SUITE_P(Layers, Convolution3dTest,
                         testing::Combine(testing::Bool(), testing::Values(1, 2)),
                         [](const auto& each) {
                           return fmt::format("{}_{}_threads",
                                              std::get<0>(each.param) ? "by_taps" : "contiguous",
                                              std::get<1>(each.param));
                         });

TEST(Convolution3d, TakesBatchesOfAnySizeAndLayout) {
  torch::manual_seed(2);
  Down down(torch::nn::Conv3dOptions(3, 8, 4).stride(2).padding(1));
  Up up(torch::nn::ConvTranspose3dOptions(3, 8, 4).stride(2).padding(1));
  for (const std::int64_t batch : {2, 1, 3, 2, 4, 5, 2}) {
    const auto x = torch::randn({batch, 3, 6, 4, 2});
    down.expect_alike(x);
    up.expect_alike(x.contiguous(at::MemoryFormat::ChannelsLast3d));
    up.expect_alike(torch::randn({batch, 6, 3, 4, 2}).transpose(1, 2));
  }
}

// Under autocast values are rounded to bfloat16, whose precision is 2^-8, and computed rightly:
// also where oneDNN 2.6's own weight gradient isn't.
TEST(Convolution3d, RoundsUnderAutocast) {
  torch::manual_seed(5);
  Convolution3d down(torch::nn::Conv3dOptions(64, 128, 4).stride(2).padding(1));
  ConvolutionTranspose3d up(torch::nn::ConvTranspose3dOptions(128, 64, 4).stride(2).padding(1));
  keep_taps_first(down->weight);
  const auto x = torch::randn({4, 64, 4, 4, 4});
  const auto gradients = [&](Precision precision) {
    down->zero_grad();
    up->zero_grad();
    torch::Tensor made;
    {
      const AutocastGuard guard(precision);
      made = up(torch::tanh(down(x)));
      EXPECT_EQ(made.scalar_type(),
                precision == Precision::fp32 ? torch::kFloat : torch::kBFloat16);
    }
    made.to(torch::kFloat).square().sum().backward();
    return std::vector<torch::Tensor>{made.detach().to(torch::kFloat), down->weight.grad().clone(),
                                      up->weight.grad().clone(), up->bias.grad().clone()};
  };
  const auto exact = gradients(Precision::fp32), cast = gradients(Precision::bf16);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double scale = exact[i].abs().max().item<double>();
    const double error = (exact[i] - cast[i]).abs().max().item<double>();
    EXPECT_LT(error, .02 * scale) << i;
    EXPECT_GT(error, 1e-5 * scale) << i;  // it was rounded
  }
}

TEST(Convolution3d, LeavesTheRestToTorch) {
  torch::manual_seed(3);
  const auto x = torch::randn({2, 4, 5, 6, 7});
  Down(torch::nn::Conv3dOptions(4, 6, 3).groups(2)).expect_alike(x);
  Down(torch::nn::Conv3dOptions(4, 6, 2).dilation(2)).expect_alike(x);
  Up(torch::nn::ConvTranspose3dOptions(4, 6, 3).groups(2)).expect_alike(x);
  Up(torch::nn::ConvTranspose3dOptions(4, 6, 3).stride(2).output_padding(1)).expect_alike(x);
  Up(torch::nn::ConvTranspose3dOptions(4, 6, 2).dilation(2)).expect_alike(x);
  Up whole(torch::nn::ConvTranspose3dOptions(4, 6, 3));
  whole.expect_alike(torch::randn({4, 5, 6, 7}));  // without a batch
  whole.ours->to(torch::kDouble);
  EXPECT_TRUE(whole.ours(x.to(torch::kDouble)).allclose(whole.plain(x.to(torch::kDouble))));
}

TEST(Convolution3d, RefusesWhatTorchRefuses) {
  ConvolutionTranspose3d layer(torch::nn::ConvTranspose3dOptions(4, 6, 3));
  EXPECT_THROW((void)layer(torch::randn({2, 5, 8, 8, 8})), c10::Error);
  Convolution3d small(torch::nn::Conv3dOptions(4, 6, 3));
  EXPECT_THROW((void)small(torch::randn({2, 4, 2, 8, 8})), c10::Error);
}

TEST(TapsFirst, KeepsShapeAndValuesAndPutsTheTapsIntoMemoryFirst) {
  const auto weight = torch::randn({3, 5, 2, 4});
  const auto moved = taps_first(weight);
  EXPECT_TRUE(moved.equal(weight));
  EXPECT_FALSE(is_taps_first(weight));
  EXPECT_TRUE(is_taps_first(moved));
  EXPECT_EQ(moved.strides(), (std::vector<std::int64_t>{1, 3, 60, 15}));
}

TEST(TapsFirst, IsForWeightsOfANetworkThatFillVectors) {
  if (convolution_implementation(3).empty()) return;  // LibTorch computes these
  const torch::nn::Sequential network(
      Convolution3d(torch::nn::Conv3dOptions(4, 32, 4)),
      ConvolutionTranspose3d(torch::nn::ConvTranspose3dOptions(32, 16, 4)),
      torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 16, 3)),
      Convolution2d(torch::nn::Conv2dOptions(16, 48, 3)));
  std::vector<Tensor> before;
  for (const auto& parameter : network->parameters())
    before.push_back(parameter.detach().clone(at::MemoryFormat::Contiguous));
  keep_taps_first(*network.ptr());
  std::vector<bool> are_taps_first;
  const auto after = network->parameters();
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_TRUE(after[i].equal(before[i]));
    if (after[i].dim() > 1) are_taps_first.push_back(is_taps_first(after[i]));
  }
  EXPECT_EQ(are_taps_first, std::vector({false, true, false, true}));
}

}  // namespace
}  // namespace kolo
