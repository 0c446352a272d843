#include "kernels/fused.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "kernels/convolution_kernel.h"

namespace kolo {
namespace {

constexpr auto channels_last = at::MemoryFormat::ChannelsLast;

struct Values {
  torch::Tensor output, gradient;
};

Values values_of(const torch::Tensor& input, const torch::Tensor& output_gradient) {
  const auto x = input.detach().clone(at::MemoryFormat::Preserve).requires_grad_();
  const auto y = max_pool_relu(x);
  y.backward(output_gradient);
  return {y.detach(), x.grad()};
}

void expect_libtorchs(const torch::Tensor& input) {
  const auto output_gradient =
      torch::randn({input.size(0), input.size(1), input.size(2) / 2, input.size(3) / 2})
          .to(input.scalar_type());
  const auto ours = values_of(input, output_gradient);
  const PlainKernels plain;
  const auto reference = values_of(input.contiguous(), output_gradient);
  EXPECT_TRUE(ours.output.equal(reference.output)) << input.sizes();
  EXPECT_TRUE(ours.gradient.equal(reference.gradient)) << input.sizes();
}

// Small whole numbers: windows with several largest values, and with none above zero.
torch::Tensor numbers(at::IntArrayRef sizes) {
  return torch::randint(-2, 3, sizes).to(torch::kFloat).contiguous(channels_last);
}

TEST(MaxPoolRelu, IsLibTorchsToTheBitWithTiesAndAnyChannels) {
  torch::manual_seed(1);
  std::mt19937 random(1);
  for (std::int64_t channels = 2; channels <= 40; ++channels) {
    const auto length = [&] { return std::uniform_int_distribution<std::int64_t>(2, 9)(random); };
    const auto x = numbers({3, channels, length(), length()});
    expect_libtorchs(x);
    expect_libtorchs(x.to(torch::kBFloat16));
  }
}

TEST(MaxPoolRelu, TakesImagesThatLieInnermost) {
  torch::manual_seed(3);
  for (const std::int64_t images : {2, 16, 21, 64}) {
    const auto x = with_batch_last(numbers({images, 5, 7, 6}));
    expect_libtorchs(x);
    EXPECT_TRUE(has_batch_last(max_pool_relu(x)));
  }
}

TEST(MaxPoolRelu, LeavesTheRestToLibTorch) {
  torch::manual_seed(2);
  expect_libtorchs(numbers({3, 1, 6, 6}));
  expect_libtorchs(torch::randn({3, 4, 6, 6}));  // channels first
  const auto doubles = torch::randn({2, 3, 4, 4}, torch::kDouble).contiguous(channels_last);
  EXPECT_EQ(max_pool_relu(doubles).scalar_type(), torch::kDouble);
}

TEST(MaxPoolRelu, KeepsNaN) {
  for (int position = 0; position < 4; ++position) {
    auto x = torch::ones({1, 8, 2, 2}).contiguous(channels_last);
    x.index_put_({0, 3, position / 2, position % 2}, NAN);
    for (const auto type : {torch::kFloat, torch::kBFloat16}) {
      const auto y = max_pool_relu(x.to(type));
      EXPECT_TRUE(std::isnan(y[0][3].item<float>())) << position;
      EXPECT_EQ(y[0][2].item<float>(), 1);
    }
  }
}

TEST(MaxPoolRelu, TakesExpandedGradients) {
  const auto x = numbers({2, 5, 4, 4}).add_(10).requires_grad_();
  max_pool_relu(x).sum().backward();
  EXPECT_EQ(x.grad().sum().item<float>(), 2 * 5 * 2 * 2);
}

}  // namespace
}  // namespace kolo
