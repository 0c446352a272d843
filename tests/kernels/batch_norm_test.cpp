// The loops against LibTorch's operators in float64, over random shapes.
#include "kernels/fused.h"

#include <random>

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>

#include "compare.h"
#include "kolo/base/error.h"

namespace kolo {
namespace {

using torch::Tensor;

constexpr auto channels_last = at::MemoryFormat::ChannelsLast;

struct Values {
  Tensor output, of_input, of_addend, of_weight, of_bias, mean, variance;
};

// A training step of a batch norm whose mean is far from 0, as those of activations are.
struct Problem {
  Tensor input, addend, weight, bias, gradient;  // float64
  Activation activation = Activation::none;

  // Takes values that `type` has.
  Problem(const std::vector<std::int64_t>& sizes, bool adds, Activation given,
          at::ScalarType type = torch::kFloat)
      : activation(given) {
    const auto channels = sizes[1];
    input = torch::randn(sizes, torch::kDouble) * 2 +
            torch::randn({1, channels, 1, 1}, torch::kDouble) * 20;
    if (adds) addend = torch::randn(sizes, torch::kDouble);
    weight = torch::rand({channels}, torch::kDouble) + .5;
    bias = torch::randn({channels}, torch::kDouble);
    gradient = torch::randn(sizes, torch::kDouble);
    for (auto* const each : {&input, &addend, &gradient})
      if (each->defined()) *each = each->to(type).to(torch::kDouble);
  }

  [[nodiscard]] Values values(at::ScalarType type, c10::optional<double> momentum = .1) const {
    const auto channels = input.size(1);
    torch::nn::BatchNorm2d norm(torch::nn::BatchNorm2dOptions(channels).momentum(momentum));
    norm->to(type == torch::kDouble ? type : torch::kFloat);
    {
      const torch::NoGradGuard no_gradient;
      norm->weight.copy_(weight);
      norm->bias.copy_(bias);
    }
    const auto leaf = [&](const Tensor& tensor) {
      if (!tensor.defined()) return Tensor();
      return tensor.detach().to(type).contiguous(channels_last).requires_grad_();
    };
    const auto x = leaf(input), z = leaf(addend);
    const auto y = batch_norm(*norm, x, z, activation);
    y.backward(gradient.to(type));
    EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 1);
    return {y.detach(),          x.grad(),          z.defined() ? z.grad() : Tensor(),
            norm->weight.grad(), norm->bias.grad(), norm->running_mean,
            norm->running_var};
  }
};

void expect_reference(const Values& values, const Values& reference) {
  constexpr double tolerance = 2e-5;
  expect_close(values.output, reference.output, "output", tolerance);
  expect_close(values.of_input, reference.of_input, "input's gradient", tolerance);
  expect_close(values.of_addend, reference.of_addend, "addend's gradient", tolerance);
  expect_close(values.of_weight, reference.of_weight, "weight's gradient", tolerance);
  expect_close(values.of_bias, reference.of_bias, "bias's gradient", tolerance);
  expect_close(values.mean, reference.mean, "running mean", tolerance);
  expect_close(values.variance, reference.variance, "running variance", tolerance);
}

TEST(BatchNorm, IsLibTorchsOverRandomShapes) {
  torch::manual_seed(1);
  std::mt19937 random(1);
  const auto up_to = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(1, most)(random);
  };
  for (int round = 0; round < 60; ++round) {
    const std::vector<std::int64_t> sizes = {up_to(9) + 1, up_to(round % 2 == 0 ? 100 : 600),
                                             up_to(9), up_to(9)};
    const auto activation = round % 3 == 0 ? Activation::none : Activation::relu;
    const Problem problem(sizes, round % 4 < 2, activation);
    SCOPED_TRACE(c10::Join(" x ", sizes));
    expect_reference(problem.values(torch::kFloat), problem.values(torch::kDouble));
  }
}

// Near zero a rounded output may be zero, which lets no gradient through a ReLU.
TEST(BatchNorm, OfBfloat16ComputesInFloat32) {
  torch::manual_seed(4);
  for (const std::int64_t channels : {1, 24, 100}) {
    const Problem problem({5, channels, 6, 7}, channels != 24, Activation::none, torch::kBFloat16);
    expect_reference(problem.values(torch::kBFloat16), problem.values(torch::kDouble));
  }
  const Problem problem({5, 32, 6, 7}, true, Activation::relu, torch::kBFloat16);
  const auto values = problem.values(torch::kBFloat16), reference = problem.values(torch::kDouble);
  expect_close(values.output, reference.output, "output");
  EXPECT_TRUE(
      values.of_addend.equal(problem.gradient.to(torch::kBFloat16)
                                 .where(values.output > 0, torch::zeros({}, torch::kBFloat16))));
}

TEST(BatchNorm, AveragesCumulativelyWithoutAMomentum) {
  torch::manual_seed(2);
  const Problem problem({4, 16, 3, 3}, true, Activation::relu);
  expect_reference(problem.values(torch::kFloat, c10::nullopt),
                   problem.values(torch::kDouble, c10::nullopt));
}

TEST(BatchNorm, DoesNotDependOnTheNumberOfThreads) {
  torch::manual_seed(3);
  const Problem problem({32, 64, 17, 16}, true, Activation::relu);
  std::vector<Values> values;
  for (const int count : {1, 2}) {
    const Threads threads(count);
    values.push_back(problem.values(torch::kFloat));
  }
  EXPECT_TRUE(values[0].output.equal(values[1].output));
  EXPECT_TRUE(values[0].of_input.equal(values[1].of_input));
  EXPECT_TRUE(values[0].of_weight.equal(values[1].of_weight));
  expect_reference(values[0], problem.values(torch::kDouble));
}

TEST(BatchNorm, KeepsNaN) {
  torch::nn::BatchNorm2d norm(3);
  auto x = torch::ones({2, 3, 2, 2}).contiguous(channels_last);
  x.index_put_({0, 1, 0, 0}, NAN);
  const auto y = batch_norm(*norm, x, {}, Activation::relu);
  EXPECT_TRUE(y.index({0, 1, 0, 0}).isnan().item<bool>());
  EXPECT_FALSE(y.index({0, 0, 0, 0}).isnan().item<bool>());
  EXPECT_TRUE(norm->running_mean[1].isnan().item<bool>());
  EXPECT_TRUE(norm->running_var[1].isnan().item<bool>());
  EXPECT_FALSE(norm->running_var[0].isnan().item<bool>());
}

TEST(BatchNorm, LeavesTheRestToLibTorch) {
  torch::manual_seed(4);
  const auto x = torch::randn({3, 5, 4, 4});  // channels first
  torch::nn::BatchNorm2d one(5), other(5);
  EXPECT_TRUE(batch_norm(*one, x, {}, Activation::relu).equal(torch::relu(other->forward(x))));
  one->eval();
  other->eval();  // running statistics
  EXPECT_TRUE(batch_norm(*one, x, x, Activation::none).equal(other->forward(x) + x));
  const PlainKernels plain;
  const auto last = x.contiguous(channels_last);
  EXPECT_TRUE(batch_norm(*one, last, {}, Activation::none).equal(other->forward(last)));
}

TEST(BatchNorm, HasNoSecondDerivatives) {
  torch::nn::BatchNorm2d norm(3);
  const auto x = torch::randn({2, 3, 4, 4}).contiguous(channels_last).requires_grad_();
  const auto y = batch_norm(*norm, x, {}, Activation::relu).sum();
  EXPECT_THROW((void)torch::autograd::grad({y}, {x}, {}, true, true), Error);
}

}  // namespace
}  // namespace kolo
