#include "kolo/optim/flat_optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gmock/gmock.h>

#include "optim/flat_buffers.h"

namespace kolo {
namespace {

using testing::as_tensor;
using testing::Buffers;
using ::testing::Each;
using testing::random_buffers;

double rate_of(std::int64_t step) {
  return .1 * static_cast<double>(1 + step % 3);
}

double norm_of(const torch::Tensor& tensor) {
  return tensor.square().sum().sqrt().item<double>();
}

template <typename T>
void compare_lars(std::size_t size, double momentum, double decay, double tolerance) {
  const auto optimizer = make_lars({.momentum = momentum, .weight_decay = decay});
  auto buffers = random_buffers<T>(size, *optimizer);
  auto parameter = as_tensor(buffers.parameters).to(torch::kDouble, false, true);
  auto buffer = torch::zeros_like(parameter);
  for (std::int64_t step = 1; step <= 10; ++step) {
    as_tensor(buffers.gradients).normal_();
    const auto gradient = as_tensor(buffers.gradients).to(torch::kDouble);
    const double scale =
        .001 * norm_of(parameter) / (norm_of(gradient) + decay * norm_of(parameter));
    buffer = momentum * buffer + rate_of(step) * scale * (gradient + decay * parameter);
    parameter -= buffer;
    optimizer->update(buffers.whole(), rate_of(step), step);
    ASSERT_TRUE(torch::allclose(as_tensor(buffers.parameters).to(torch::kDouble), parameter,
                                tolerance, tolerance))
        << size << " elements, step " << step;
  }
}

TEST(Lars, FollowsItsFormula) {
  torch::manual_seed(1);
  for (const std::size_t size : {1, 15, 16, 1000, 5003}) {
    compare_lars<double>(size, .9, .0005, 1e-13);
    compare_lars<double>(size, 0, 0, 1e-13);
    compare_lars<float>(size, .9, .0005, 2e-6);
  }
}

template <typename T>
void compare_lamb(std::size_t size, double decay, double tolerance) {
  const auto optimizer = make_lamb({.weight_decay = decay});
  auto buffers = random_buffers<T>(size, *optimizer);
  auto parameter = as_tensor(buffers.parameters).to(torch::kDouble, false, true);
  auto mean = torch::zeros_like(parameter), mean_square = torch::zeros_like(parameter);
  for (std::int64_t step = 1; step <= 10; ++step) {
    as_tensor(buffers.gradients).normal_();
    const auto gradient = as_tensor(buffers.gradients).to(torch::kDouble);
    mean = .9 * mean + .1 * gradient;
    mean_square = .999 * mean_square + .001 * gradient.square();
    const auto steps = static_cast<double>(step);
    const auto direction = mean / (1 - std::pow(.9, steps)) /
                               ((mean_square / (1 - std::pow(.999, steps))).sqrt() + 1e-6) +
                           decay * parameter;
    parameter -= rate_of(step) * norm_of(parameter) / norm_of(direction) * direction;
    optimizer->update(buffers.whole(), rate_of(step), step);
    ASSERT_TRUE(torch::allclose(as_tensor(buffers.parameters).to(torch::kDouble), parameter,
                                tolerance, tolerance))
        << size << " elements, step " << step;
  }
}

TEST(Lamb, FollowsItsFormula) {
  torch::manual_seed(2);
  for (const std::size_t size : {2, 15, 16, 1000, 5003}) {
    compare_lamb<double>(size, .01, 1e-12);
    compare_lamb<double>(size, 0, 1e-12);
    compare_lamb<float>(size, .01, 1e-4);
  }
}

TEST(Lars, NormsAreAddedUpInDouble) {
  // In float nothing would be left of the squares of 1 beside those of 4096.
  constexpr std::size_t size = 1 << 16;
  Buffers<float> buffers(size);
  buffers.parameters.assign(size, 1);
  buffers.gradients.assign(size, 1);
  std::fill_n(buffers.gradients.begin(), 64, 4096.F);
  make_lars({.momentum = 0, .trust_coefficient = 64})->update(buffers.whole(), 1, 1);
  const double norm = std::sqrt(64 * 4096. * 4096. + (size - 64));
  EXPECT_NEAR(buffers.parameters.back(), 1 - 64 * 256 / norm, 1e-7);
}

TEST(LayerwiseOptimizers, WithoutANormTheScaleIsOne) {
  for (const bool is_parameter_zero : {true, false}) {
    Buffers<double> buffers(20);
    buffers.parameters.assign(20, is_parameter_zero ? 0 : 2);
    buffers.gradients.assign(20, is_parameter_zero ? 3 : 0);
    auto copy = buffers;
    make_lars({.weight_decay = .5})->update(buffers.whole(), .1, 1);
    EXPECT_THAT(buffers.parameters, Each(is_parameter_zero ? -.1 * 3 : 2 - .1 * (.5 * 2)));
    make_lamb({.epsilon = 0.5})->update(copy.whole(), .1, 1);
    EXPECT_THAT(copy.parameters,
                Each(::testing::DoubleNear(is_parameter_zero ? -.1 * 3 / 3.5 : 2, 1e-15)));
  }
}

TEST(LayerwiseOptimizers, VectorsAreExcludedUnlessAskedFor) {
  for (const bool exclude : {true, false}) {
    const auto lars = make_lars({.momentum = 0, .weight_decay = .5, .exclude_vectors = exclude});
    const auto lamb = make_lamb({.epsilon = 0, .weight_decay = .5, .exclude_vectors = exclude});
    EXPECT_EQ(lars->spares_vectors(), exclude);
    EXPECT_EQ(lamb->spares_vectors(), exclude);
    Buffers<double> buffers(4);
    buffers.parameters.assign(4, 2);
    buffers.gradients.assign(4, 1);
    auto copy = buffers;
    auto slice = buffers.whole();
    slice.is_vector = true;
    lars->update(slice, .1, 1);
    const double scaled = .1 * .001 * 4 / (2 + .5 * 4) * (1 + .5 * 2);
    EXPECT_THAT(buffers.parameters,
                Each(::testing::DoubleNear(2 - (exclude ? .1 : scaled), 1e-15)));
    auto other = copy.whole();
    other.is_vector = true;
    lamb->update(other, .1, 1);
    // The direction is 1, and 2 with decay, of norm 4; the parameter's norm is 4.
    EXPECT_THAT(copy.parameters, Each(::testing::DoubleNear(2 - (exclude ? .1 : .2), 1e-15)));
  }
}

}  // namespace
}  // namespace kolo
