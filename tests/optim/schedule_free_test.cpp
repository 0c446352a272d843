#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/optim/flat_optimizer.h"
#include "optim/flat_buffers.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

// The sequences of the paper's algorithm 1, in double, with a rate that warms up.
struct Sequences {
  torch::Tensor x, z, y, square;
  double largest = 0, weights = 0;

  explicit Sequences(const torch::Tensor& first)
      : x(first.clone()), z(first.clone()), y(first.clone()), square(torch::zeros_like(first)) {}

  void step(const torch::Tensor& direction, double momentum, double rate) {
    largest = std::max(largest, rate);
    weights += largest * largest;
    const double c = weights > 0 ? largest * largest / weights : 0;
    z = z - rate * direction;
    x = (1 - c) * x + c * z;
    y = (1 - momentum) * z + momentum * x;
  }
};

double warm_rate(std::int64_t step) {
  return .1 * std::min(1., static_cast<double>(step - 1) / 4);  // begins with 0
}

template <typename T>
torch::Tensor for_use(const FlatOptimizer& optimizer, testing::Buffers<T>& buffers) {
  const auto use = optimizer.for_use().value();
  return as_tensor(buffers.parameters).to(torch::kDouble) -
         as_tensor(buffers.state.at(use.index)).to(torch::kDouble) * use.factor;
}

using Direction = std::function<torch::Tensor(Sequences&, const torch::Tensor& gradient, int step)>;

template <typename T>
void compare_sequences(const FlatOptimizer& optimizer, double momentum, const Direction& direction,
                       double tolerance) {
  for (const std::size_t size : {1, 16, 1003}) {
    auto buffers = random_buffers<T>(size, optimizer);
    Sequences expected(as_tensor(buffers.parameters).to(torch::kDouble));
    RateHistory rates;
    for (std::int64_t step = 1; step <= 20; ++step) {
      as_tensor(buffers.gradients).normal_();
      const auto gradient = as_tensor(buffers.gradients).to(torch::kDouble);
      expected.step(direction(expected, gradient, static_cast<int>(step)), momentum,
                    warm_rate(step));
      optimizer.update(buffers.whole(), rates.note(warm_rate(step)), step);
      ASSERT_TRUE(as_tensor(buffers.parameters)
                      .to(torch::kDouble)
                      .allclose(expected.y, tolerance, tolerance))
          << optimizer.name() << ", " << size << " elements, step " << step;
      ASSERT_TRUE(for_use(optimizer, buffers).allclose(expected.x, tolerance, tolerance))
          << optimizer.name() << ", " << size << " elements, step " << step;
    }
  }
}

TEST(ScheduleFree, SgdFollowsThePaper) {
  torch::manual_seed(1);
  for (const double momentum : {.9, 0., .98}) {
    const auto optimizer = make_schedule_free_sgd({.momentum = momentum, .weight_decay = .02});
    const Direction direction = [](Sequences& at, const torch::Tensor& gradient, int) {
      return gradient + .02 * at.y;
    };
    compare_sequences<double>(*optimizer, momentum, direction, 1e-12);
    compare_sequences<float>(*optimizer, momentum, direction, 3e-6);
  }
}

TEST(ScheduleFree, AdamwFollowsThePaper) {
  torch::manual_seed(2);
  const auto optimizer = make_schedule_free_adamw({.beta2 = .99, .weight_decay = .1});
  const Direction direction = [](Sequences& at, const torch::Tensor& gradient, int step) {
    at.square = .99 * at.square + .01 * gradient.square();
    const auto root = (at.square / (1 - std::pow(.99, step))).sqrt();
    return gradient / (root + 1e-8) + .1 * at.y;
  };
  compare_sequences<double>(*optimizer, .9, direction, 1e-12);
  compare_sequences<float>(*optimizer, .9, direction, 5e-6);
}

// At one rate the average is that of all z, each counting the same.
TEST(ScheduleFree, WeightsOfOneRateAreThoseOfAMean) {
  RateHistory rates;
  for (int step = 1; step <= 10; ++step) EXPECT_DOUBLE_EQ(rates.note(.3).weight, 1. / step);
  // A smaller rate counts as the largest one.
  EXPECT_DOUBLE_EQ(rates.note(.1).weight, 1. / 11);
  EXPECT_EQ(rates.largest, .3);
  EXPECT_EQ(RateHistory{}.note(0).weight, 0);
  for (const double huge : {1e160, 1e300})  // whose squares are infinite
    EXPECT_EQ(RateHistory{}.note(huge).weight, 1);
}

TEST(ScheduleFree, AWeightOutOfRangeIsRefused) {
  testing::Buffers<float> buffers(3);
  EXPECT_TRUE(says(message_of<Error>([&] {
                     make_schedule_free_sgd({})->update(buffers.whole(), {.1, 1.5}, 1);
                   }),
                   {"weight 1.5 of a step in the average"}));
}

}  // namespace
}  // namespace kolo::testing
