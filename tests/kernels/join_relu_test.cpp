#include <cmath>

#include <gtest/gtest.h>
#include <torch/types.h>

#include "kernels/fused.h"
#include "kolo/base/error.h"

namespace kolo {
namespace {

constexpr auto channels_last = at::MemoryFormat::ChannelsLast3d;

struct Pair {
  torch::Tensor first, second;

  Pair(std::int64_t first_channels, std::int64_t second_channels, torch::ScalarType type)
      : first(numbers(first_channels, type)), second(numbers(second_channels, type)) {}

  static torch::Tensor numbers(std::int64_t channels, torch::ScalarType type) {
    return torch::randint(-2, 3, {2, channels, 3, 5, 4}).to(type).contiguous(channels_last);
  }
};

struct Values {
  torch::Tensor output, of_first, of_second;
};

Values values_of(const Pair& pair, const torch::Tensor& gradient) {
  const auto leaf = [](const torch::Tensor& tensor) {
    return tensor.detach().clone(at::MemoryFormat::Preserve).requires_grad_();
  };
  const auto x = leaf(pair.first), beside = leaf(pair.second);
  const auto y = join_relu(x * 1, beside);  // a leaf can't be written into
  y.backward(gradient);
  return {y.detach(), x.grad(), beside.grad()};
}

TEST(JoinRelu, IsLibTorchsToTheBit) {
  torch::manual_seed(1);
  for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kDouble}) {
    for (const auto& [first, second] :
         {std::pair{1, 1}, {2, 7}, {16, 16}, {33, 5}, {64, 64}, {24, 130}}) {
      const Pair pair(first, second, type);
      for (const auto format : {channels_last, at::MemoryFormat::Contiguous}) {
        const auto gradient =
            torch::randn({2, first + second, 3, 5, 4}).to(type).contiguous(format);
        const auto ours = values_of(pair, gradient);
        const PlainKernels plain;
        const auto reference = values_of(pair, gradient);
        EXPECT_TRUE(ours.output.equal(reference.output));
        EXPECT_TRUE(ours.of_first.equal(reference.of_first));
        EXPECT_TRUE(ours.of_second.equal(reference.of_second));
      }
    }
  }
}

TEST(JoinRelu, KeepsNaN) {
  auto x = torch::ones({1, 8, 1, 2, 2}).contiguous(channels_last);
  x.index_put_({0, 3, 0, 1, 1}, NAN);
  const auto y = join_relu(x, torch::zeros_like(x));
  EXPECT_EQ(y.isnan().sum().item<std::int64_t>(), 1);
  EXPECT_TRUE(std::isnan(y[0][3][0][1][1].item<float>()));
}

TEST(JoinRelu, HasNoSecondDerivatives) {
  const auto x = Pair::numbers(4, torch::kFloat).requires_grad_();
  const auto y = join_relu(x * 1, Pair::numbers(4, torch::kFloat));
  EXPECT_THROW((void)torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true), Error);
}

}  // namespace
}  // namespace kolo
