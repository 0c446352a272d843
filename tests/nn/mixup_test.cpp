#include "kolo/nn/mixup.h"

#include <cmath>
#include <limits>
#include <set>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo {
namespace {

// Samples that are their own numbers, so that what was mixed can be told.
struct Batch {
  torch::Tensor targets = torch::arange(32, torch::kInt64);
  torch::Tensor inputs = targets.to(torch::kFloat32).view({-1, 1, 1}).expand({-1, 2, 3}).clone();
};

TEST(Mixup, MixesEverySampleWithOneOfTheBatch) {
  const Batch batch;
  CounterRandom random(1, 2, 3);
  const MixedBatch mixed = mix(batch.inputs, batch.targets, 0.4, random);
  EXPECT_TRUE(torch::equal(mixed.targets, batch.targets));
  const torch::Tensor sorted = std::get<0>(mixed.partner_targets.sort());
  EXPECT_TRUE(torch::equal(sorted, batch.targets)) << "each is the partner of one";
  EXPECT_FALSE(torch::equal(mixed.partner_targets, batch.targets));
  const torch::Tensor expected =
      mixed.share * batch.inputs + (1 - mixed.share) * batch.inputs.index({mixed.partner_targets});
  EXPECT_TRUE(torch::allclose(mixed.inputs, expected, 1e-5, 1e-5));
  EXPECT_TRUE(torch::equal(batch.inputs, Batch().inputs)) << "the batch itself is left alone";
}

TEST(Mixup, DependsOnTheGeneratorAlone) {
  const Batch batch;
  std::set<double> shares;
  for (const std::uint32_t rank : {0, 1}) {
    for (const std::uint64_t step : {0, 1, 2}) {
      CounterRandom random(7, rank, step), again(7, rank, step);
      torch::manual_seed(static_cast<std::uint64_t>(step));
      const MixedBatch mixed = mix(batch.inputs, batch.targets, 1, random);
      const MixedBatch same = mix(batch.inputs, batch.targets, 1, again);
      EXPECT_EQ(mixed.share, same.share);
      EXPECT_TRUE(torch::equal(mixed.inputs, same.inputs));
      shares.insert(mixed.share);
    }
  }
  EXPECT_EQ(shares.size(), 6U);
}

// The share has the mean and variance of Beta(alpha, alpha), 1/2 and 1 / (4 (2 alpha + 1)).
TEST(Mixup, SharesHaveTheBetaDistribution) {
  const torch::Tensor one = torch::zeros({1});
  for (const double alpha : {1e-3, 0.2, 0.5, 1.0, 3.0, 400.0}) {
    double sum = 0, squares = 0, quarter = 0;
    const int count = 20000;
    for (int step = 0; step < count; ++step) {
      CounterRandom random(11, 0, static_cast<std::uint64_t>(step));
      const double share = mix(one, one, alpha, random).share;
      ASSERT_TRUE(share >= 0 && share <= 1) << share;
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
      quarter += share < 0.25 ? 1 : 0;
    }
    const double variance = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(sum / count, 0.5, 4 * std::sqrt(variance / count)) << alpha;
    EXPECT_NEAR(squares / count, variance, 0.04 * variance) << alpha;
    if (alpha == 1) {
      EXPECT_NEAR(quarter / count, 0.25, 0.015);
    } else if (alpha == 0.5) {  // the arcsine distribution
      EXPECT_NEAR(quarter / count, 1.0 / 3, 0.015);
    }
  }
}

TEST(Mixup, TheLossIsThatOfMixedTargets) {
  torch::manual_seed(3);
  const torch::Tensor logits = torch::randn({32, 40}, torch::requires_grad());
  const Batch batch;
  CounterRandom random(5, 0, 0);
  const MixedBatch mixed = mix(batch.inputs, batch.targets, 1, random);
  const auto loss = make_cross_entropy(0.1);
  const torch::Tensor soft =
      mixed.share * torch::one_hot(mixed.targets, 40).to(torch::kFloat32) +
      (1 - mixed.share) * torch::one_hot(mixed.partner_targets, 40).to(torch::kFloat32);
  EXPECT_NEAR(mixed_loss(loss, logits, mixed).item<double>(), loss(logits, soft).item<double>(),
              1e-5);
}

TEST(Mixup, RefusesWhatCantBeMixed) {
  CounterRandom random(1, 1, 1);
  const Batch batch;
  for (const double alpha : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    EXPECT_TRUE(says(testing::message_of<InputError>(
                         [&] { (void)mix(batch.inputs, batch.targets, alpha, random); }),
                     {"expected a number above 0"}));
  }
  EXPECT_THROW((void)mix(batch.targets, batch.targets, 1, random), InputError);
  EXPECT_THROW((void)mix(batch.inputs, batch.targets.slice(0, 1), 1, random), InputError);
  EXPECT_EQ(mix(torch::zeros({0, 2}), torch::zeros({0}), 1, random).inputs.numel(), 0);
}

}  // namespace
}  // namespace kolo
