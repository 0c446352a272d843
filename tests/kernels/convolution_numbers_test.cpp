// Numbers that every kernel keeps: zeros, digits of long sums, and values that are no numbers.
#include <random>

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "convolution_problem.h"
#include "kernels/convolution_kernel.h"

namespace kolo {
namespace {

// Thins out [N, C, ...]: some channels are 0 everywhere, some nearly so, some in a part of the
// samples.
void thin_out(Tensor& tensor, std::mt19937& random) {
  const auto below = [&](std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random);
  };
  tensor.mul_(torch::rand(tensor.sizes()) < .6);
  for (std::int64_t channel = 0; channel < tensor.size(1); ++channel) {
    auto values = tensor.select(1, channel);
    const auto kind = below(6);
    if (kind == 0) values.zero_();
    if (kind == 1) values.mul_(torch::rand(values.sizes()) < 2. / values.numel());
    if (kind == 2) values.narrow(0, 0, 1 + below(values.size(0))).zero_();
  }
}

// Makes all channels of [N, C, ...] 0 in a part of each dimension, as around what images show.
void clear_margins(Tensor& tensor, std::mt19937& random) {
  for (std::int64_t i = 2; i < tensor.dim(); ++i) {
    const auto margin =
        std::uniform_int_distribution<std::int64_t>(0, tensor.size(i) * 2 / 3)(random);
    tensor.narrow(i, 0, margin).zero_();
  }
}

class ZeroProductsTest : public ConvolutionKernelTest {};

// A weight's gradient is exactly 0 where each of its products has a factor of 0: dead channels,
// taps that only fall on padding, channels that are never there together. So is a gradient of an
// input that no gradient reaches, and an output of zeros is its bias.
TEST_P(ZeroProductsTest, AddUpToZero) {
  const auto& [kernel_case, dimensions, threads] = GetParam();
  std::mt19937 random(static_cast<unsigned>(11 * dimensions) + static_cast<unsigned>(threads));
  std::int64_t zeros = 0, kernels = 0;
  for (int round = 0; round < 15; ++round) {
    const auto geometry = kernel_case.geometry(random, dimensions);
    SCOPED_TRACE(text_of(geometry));
    const auto kernel = kernel_case.make(geometry);
    if (!kernel) continue;
    ++kernels;
    Problem problem(geometry);
    thin_out(problem.input, random);
    thin_out(problem.gradient, random);
    clear_margins(problem.input, random);
    clear_margins(problem.gradient, random);
    const auto values = problem.by(*kernel);
    // How many products there are that are not 0.
    problem.input = problem.input.ne(0).to(torch::kDouble);
    problem.gradient = problem.gradient.ne(0).to(torch::kDouble);
    const auto bias = problem.bias;
    problem.weight.fill_(1);
    if (bias.defined()) problem.bias = torch::zeros_like(bias);
    const auto products = problem.reference();
    const auto is_zero = products.of_weight < .5;
    const auto no_input = products.output < .5, no_gradient = products.of_input < .5;
    auto expected = torch::zeros_like(values.output);
    if (bias.defined())
      expected.add_(bias.to(expected.scalar_type())
                        .view(Problem::lengths(1, -1, std::vector<std::int64_t>(dimensions, 1))));
    ASSERT_TRUE(values.output.masked_select(no_input).equal(expected.masked_select(no_input)));
    ASSERT_EQ(values.of_input.masked_select(no_gradient).count_nonzero().item<std::int64_t>(), 0);
    zeros += is_zero.sum().item<std::int64_t>();
    ASSERT_EQ(values.of_weight.masked_select(is_zero).count_nonzero().item<std::int64_t>(), 0);
  }
  EXPECT_TRUE(zeros > 0 || kernels == 0);
}

INSTANTIATE_TEST_SUITE_P(Kernels, ZeroProductsTest,
                         testing::Combine(testing::ValuesIn(kernel_cases()),
                                          testing::Values<std::size_t>(1, 2, 3),
                                          testing::Values(1, 2)),
                         case_name);

ConvolutionGeometry images_of(std::int64_t batch, std::int64_t size, torch::ScalarType type) {
  return {.batch = batch,
          .inputs = 16,
          .outputs = 16,
          .size = {size, size},
          .kernel = {3, 3},
          .stride = {1, 1},
          .padding = {0, 0},
          .type = type};
}

// A sum with a product that is no number is none, though the other factor is 0.
TEST(MinimalAlgorithms, HideNothingThatIsNoNumber) {
  torch::manual_seed(3);
  const auto geometry = images_of(2, 8, torch::kFloat);
  const auto kernel = make_winograd_convolution(geometry);
  if (!kernel)
    GTEST_SKIP()
        << "this processor has none of the vectors (AVX2, AVX-512, NEON) that the kernel is for";
  Problem problem(geometry);
  problem.input.select(1, 3).fill_(NAN);
  problem.gradient.select(1, 5).zero_();
  const auto of_weight = problem.by(*kernel).of_weight;
  EXPECT_TRUE(of_weight.select(1, 3).isnan().all().item<bool>());
  EXPECT_EQ(of_weight[5].narrow(0, 4, 12).count_nonzero().item<std::int64_t>(), 0);
}

// Added up one by one in float32, 53 824 values of one sign are off by 8e-6.
TEST(SumByChannel, LosesNoDigits) {
  torch::manual_seed(4);
  for (const auto type : {torch::kFloat, torch::kBFloat16}) {
    const auto values = (1 + torch::rand({64, 16, 29, 29})).to(type);
    const auto sums = values.to(torch::kDouble).sum({0, 2, 3});
    for (const auto order : {MemoryOrder::channels_last, MemoryOrder::batch_last}) {
      const auto in_memory = order == MemoryOrder::batch_last
                                 ? with_batch_last(values)
                                 : values.contiguous(at::MemoryFormat::ChannelsLast);
      for (const int count : {1, 2}) {
        const Threads threads(count);
        const auto error = (sum_by_channel(in_memory, order).to(torch::kDouble) - sums) / sums;
        EXPECT_LT(error.abs().max().item<double>(), 5e-7) << type << ", " << count << " threads";
      }
    }
  }
}

// Rounding the weights and the results to bfloat16 is all that may be lost, twice over.
TEST(ConvolutionKernels, AreNearlyIdealInBFloat16) {
  torch::manual_seed(5);
  std::mt19937 random(5);
  for (const auto& kernel_case : kernel_cases()) {
    for (int round = 0; round < 12; ++round) {
      const auto geometry = kernel_case.geometry(random, 2 + round % 2);
      if (geometry.type != torch::kBFloat16) break;
      SCOPED_TRACE(std::string(kernel_case.name) + ": " + text_of(geometry));
      const auto kernel = kernel_case.make(geometry);
      if (!kernel) continue;
      const Problem problem(geometry);
      const auto values = problem.by(*kernel), reference = problem.reference();
      expect_nearly_ideal(values.output, reference.output, "output");
      expect_nearly_ideal(values.of_input, reference.of_input, "gradient of the input");
      expect_nearly_ideal(values.of_weight, reference.of_weight, "gradient of the weight");
    }
  }
}

}  // namespace
}  // namespace kolo
