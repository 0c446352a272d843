#include "kolo/optim/flat_optimizer.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "optim/flat_buffers.h"
#include "support/matchers.h"

namespace kolo::testing {
namespace {

double rate_of(std::int64_t step) {
  return .1 * static_cast<double>(1 + step % 3);
}

double norm_of(const torch::Tensor& tensor) {
  return tensor.square().sum().sqrt().item<double>();
}

// A step of a whole parameter in float64, by its formula.
using TensorFormula =
    std::function<void(torch::Tensor& parameter, const torch::Tensor& gradient, std::int64_t step)>;

template <typename T>
void compare(const FlatOptimizer& optimizer, std::size_t size, double tolerance,
             const TensorFormula& formula) {
  auto buffers = random_buffers<T>(size, optimizer);
  auto parameter = as_tensor(buffers.parameters).to(torch::kDouble, false, true);
  for (std::int64_t step = 1; step <= 10; ++step) {
    as_tensor(buffers.gradients).normal_();
    formula(parameter, as_tensor(buffers.gradients).to(torch::kDouble), step);
    optimizer.update(buffers.whole(), rate_of(step), step);
    ASSERT_TRUE(torch::allclose(as_tensor(buffers.parameters).to(torch::kDouble), parameter,
                                tolerance, tolerance))
        << optimizer.name() << ", " << size << " elements, step " << step;
  }
}

TensorFormula lars_formula(double momentum, double decay) {
  return [=, buffer = torch::zeros({}, torch::kDouble)](auto& parameter, const auto& gradient,
                                                        std::int64_t step) mutable {
    const double scale =
        .001 * norm_of(parameter) / (norm_of(gradient) + decay * norm_of(parameter));
    buffer = momentum * buffer + rate_of(step) * scale * (gradient + decay * parameter);
    parameter -= buffer;
  };
}

TEST(Lars, FollowsItsFormula) {
  torch::manual_seed(1);
  for (const std::size_t size : {1, 15, 16, 1000, 5003}) {
    const auto decaying = make_lars({.momentum = .9, .weight_decay = .0005});
    compare<double>(*decaying, size, 1e-13, lars_formula(.9, .0005));
    compare<double>(*make_lars({.momentum = 0}), size, 1e-13, lars_formula(0, 0));
    compare<float>(*decaying, size, 2e-6, lars_formula(.9, .0005));
  }
}

TensorFormula lamb_formula(double decay) {
  const auto zero = torch::zeros({}, torch::kDouble);
  return [=, mean = zero, square = zero](auto& parameter, const auto& gradient,
                                         std::int64_t step) mutable {
    mean = .9 * mean + .1 * gradient;
    square = .999 * square + .001 * gradient.square();
    const auto steps = static_cast<double>(step);
    const auto root = (square / (1 - std::pow(.999, steps))).sqrt();
    const auto direction = mean / (1 - std::pow(.9, steps)) / (root + 1e-6) + decay * parameter;
    parameter -= rate_of(step) * norm_of(parameter) / norm_of(direction) * direction;
  };
}

TEST(Lamb, FollowsItsFormula) {
  torch::manual_seed(2);
  for (const std::size_t size : {2, 15, 16, 1000, 5003}) {
    compare<double>(*make_lamb({.weight_decay = .01}), size, 1e-12, lamb_formula(.01));
    compare<double>(*make_lamb({}), size, 1e-12, lamb_formula(0));
    compare<float>(*make_lamb({.weight_decay = .01}), size, 1e-4, lamb_formula(.01));
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
}  // namespace kolo::testing
