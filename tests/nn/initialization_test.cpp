#include <cmath>

#include <gmock/gmock.h>

#include "nn/models/building_blocks.h"

namespace kolo::networks {
namespace {

double fraction_below(const torch::Tensor& values, double bound) {
  return values.abs().lt(bound).to(torch::kFloat64).mean().item<double>();
}

// The share of a normal distribution within so many deviations of its mean.
double within(double deviations) {
  return std::erf(deviations / std::sqrt(2.0));
}

TEST(HeNormal, IsANormalDistributionCutAtTwoDeviations) {
  torch::manual_seed(1);
  const torch::Tensor weight = torch::empty({512, 128, 3, 3}, torch::requires_grad());
  he_normal(weight);
  const double fan_in = 128 * 9;
  EXPECT_NEAR(weight.mean().item<double>(), 0, 3e-4 * std::sqrt(2 / fan_in) * 10);
  EXPECT_NEAR(weight.std().item<double>(), std::sqrt(2 / fan_in), 0.005 * std::sqrt(2 / fan_in));

  const double deviation = std::sqrt(2 / fan_in) / 0.87962566103423978;
  EXPECT_LE(weight.abs().max().item<double>(), 2.00001 * deviation);
  EXPECT_GT(weight.abs().max().item<double>(), 1.99 * deviation);
  for (const double cut : {0.25, 0.5, 1.0, 1.5, 1.9})
    EXPECT_NEAR(fraction_below(weight, cut * deviation), within(cut) / within(2), 0.004) << cut;
  EXPECT_TRUE(weight.is_leaf());
}

TEST(GlorotUniform, IsUniformWithinItsBound) {
  torch::manual_seed(2);
  const torch::Tensor weight = torch::empty({300, 500, 2});
  glorot_uniform(weight);
  const double bound = std::sqrt(6.0 / (2 * (300 + 500)));
  EXPECT_LE(weight.abs().max().item<double>(), bound * 1.000001);
  EXPECT_NEAR(weight.mean().item<double>(), 0, 0.005 * bound);
  for (const double part : {0.1, 0.5, 0.9})
    EXPECT_NEAR(fraction_below(weight, part * bound), part, 0.005) << part;
}

}  // namespace
}  // namespace kolo::networks
