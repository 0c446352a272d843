#include "kolo/nn/metrics.h"

#include <cmath>
#include <limits>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

using ::testing::IsNan;

torch::Tensor classes_of(std::vector<std::int64_t> classes) {
  return torch::tensor(classes, torch::kInt64);
}

std::int64_t count_correct(const torch::Tensor& logits, const torch::Tensor& targets) {
  return correct_samples(logits, targets).item<std::int64_t>();
}

std::int64_t count_in_top(const torch::Tensor& logits, const torch::Tensor& targets,
                          std::int64_t k) {
  return samples_in_top(logits, targets, k).item<std::int64_t>();
}

TEST(CountCorrect, ComparesTheLargestLogitWithTheTarget) {
  const torch::Tensor logits =
      torch::tensor({{1.0, 2.0, 3.0}, {5.0, 2.0, 3.0}, {-1.0, -0.5, -2.0}}).requires_grad_();
  EXPECT_EQ(count_correct(logits, classes_of({2, 0, 1})), 3);
  EXPECT_EQ(count_correct(logits, classes_of({2, 1, 0})), 1);
  EXPECT_EQ(count_correct(logits, classes_of({0, 1, 2})), 0);
  EXPECT_EQ(count_correct(torch::zeros({0, 3}), torch::zeros({0}, torch::kInt64)), 0);
}

TEST(CountCorrect, GoesByTheSignOfOneLogit) {
  const torch::Tensor logits = torch::tensor({{-0.1}, {0.1}, {3.0}, {-2.0}}).requires_grad_();
  EXPECT_EQ(count_correct(logits, classes_of({0, 1, 1, 0})), 4);
  EXPECT_EQ(count_correct(logits, classes_of({1, 1, 1, 1})), 2);
  EXPECT_EQ(count_correct(logits.flatten(), torch::tensor({0.0, 1.0, 0.0, 1.0})), 2);
  EXPECT_EQ(count_correct(logits, torch::tensor({{0.2}, {0.9}, {1.0}, {1.0}})), 3);
  EXPECT_EQ(count_correct(torch::zeros({1, 1}), classes_of({0})), 1) << "0 is not above 0";
}

TEST(CountCorrect, RefusesOtherShapes) {
  EXPECT_TRUE(says(message_of<InputError>([] {
                     (void)count_correct(torch::zeros({3, 2}), classes_of({0, 1}));
                   }),
                   {"logits [3, 2] and targets [2] of Long"}));
  EXPECT_THROW((void)count_correct(torch::zeros({3, 1}), classes_of({0, 1})), InputError);
  EXPECT_THROW((void)count_correct(torch::zeros({2, 2}), torch::zeros({2})), InputError);
}

TEST(CountInTop, AgreesWithTopkWithoutTies) {
  torch::manual_seed(1);
  const torch::Tensor logits = torch::randn({200, 17}, torch::requires_grad());
  const torch::Tensor targets = torch::randint(17, {200}, torch::kInt64);
  EXPECT_EQ(count_in_top(logits, targets, 1), count_correct(logits, targets));
  for (const std::int64_t k : {1, 2, 5, 16, 17}) {
    const torch::Tensor top = std::get<1>(logits.topk(k, 1));
    EXPECT_EQ(count_in_top(logits, targets, k),
              top.eq(targets.unsqueeze(1)).sum().item<std::int64_t>())
        << k;
  }
  EXPECT_EQ(count_in_top(logits, targets, 100), 200);
  EXPECT_EQ(count_in_top(torch::zeros({0, 3}), torch::zeros({0}, torch::kInt64), 5), 0);
}

TEST(CountInTop, EqualLogitsRankByClass) {
  const torch::Tensor logits = torch::tensor({{3.0, 2.0, 2.0, 1.0}});
  for (const std::int64_t target : {0, 1, 2, 3})
    EXPECT_EQ(count_in_top(logits, classes_of({target}), 2), target < 2 ? 1 : 0) << target;
}

TEST(CountInTop, IsChanceWhereANetworkTellsNothingApart) {
  const torch::Tensor targets = torch::arange(100, torch::kInt64).remainder(10);
  for (const auto type : {torch::kFloat32, torch::kBFloat16}) {
    const torch::Tensor logits = torch::zeros({100, 10}, type);
    EXPECT_EQ(count_correct(logits, targets), 10);
    EXPECT_EQ(count_in_top(logits, targets, 1), 10);
    EXPECT_EQ(count_in_top(logits, targets, 5), 50);
  }
}

TEST(CountInTop, WhatIsNotFiniteIsNotIn) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const torch::Tensor logits =
      torch::tensor({{nan, 1.0F, 2.0F}, {1.0F, infinity, 2.0F}, {1.0F, 2.0F, 3.0F}});
  EXPECT_EQ(count_in_top(logits, classes_of({0, 1, 0}), 3), 1);
  EXPECT_THROW((void)count_in_top(logits, classes_of({0, 1, 0}), 0), InputError);
}

TEST(ErrorSums, AreThoseOfAllBatchesTogether) {
  torch::manual_seed(1);
  const auto targets = 1e6 + torch::randn({40, 3});  // a large mean
  const auto outputs = targets + .5 * torch::randn({40, 3});
  const auto whole = error_sums(outputs, targets);
  const auto errors = (outputs - targets).to(torch::kDouble), truths = targets.to(torch::kDouble);
  const auto squared = errors.square().sum().item<double>();
  EXPECT_NEAR(whole.mean_absolute_error(), errors.abs().mean().item<double>(), 1e-12);
  EXPECT_NEAR(whole.root_mean_squared_error(), std::sqrt(squared / 120), 1e-12);
  const auto variation = (truths - truths.mean()).square().sum().item<double>();
  EXPECT_NEAR(whole.r_squared(), 1 - squared / variation, 1e-9);

  ErrorSums sum;
  for (const auto& [begin, length] : {std::pair(0, 7), {7, 0}, {7, 1}, {8, 32}})
    sum.add(error_sums(outputs.narrow(0, begin, length), targets.narrow(0, begin, length)));
  EXPECT_EQ(sum.values, 120);
  EXPECT_NEAR(sum.mean_absolute_error(), whole.mean_absolute_error(), 1e-12);
  EXPECT_NEAR(sum.root_mean_squared_error(), whole.root_mean_squared_error(), 1e-12);
  EXPECT_NEAR(sum.r_squared(), whole.r_squared(), 1e-9);
}

TEST(ErrorSums, TellNothingOfTargetsThatAreEqual) {
  ErrorSums sum;
  for (const std::int64_t batch : {3, 7, 5})
    sum.add(error_sums(torch::zeros({batch, 11}), torch::full({batch, 11}, .1F)));
  EXPECT_EQ(sum.variation, 0);
  EXPECT_THAT(sum.r_squared(), IsNan());
  EXPECT_FLOAT_EQ(static_cast<float>(sum.mean_absolute_error()), .1F);
  EXPECT_TRUE(says(message_of<InputError>([] {
                     (void)error_sums(torch::zeros({2, 1}), torch::zeros({2}));
                   }),
                   {"outputs [2, 1] and targets [2], expected one shape"}));
}

TEST(ConfusionMatrix, CountsTargetsByPrediction) {
  ConfusionMatrix matrix(3);
  const torch::Tensor logits = torch::eye(3).index({classes_of({0, 1, 1, 2, 2})});
  matrix.add(logits, classes_of({0, 0, 1, 1, 1}));
  matrix.add(torch::zeros({0, 3}), torch::zeros({0}, torch::kInt64));
  EXPECT_THAT(matrix.counts(), ElementsAre(1, 1, 0, 0, 1, 2, 0, 0, 0));
  EXPECT_THAT(matrix.accuracy_by_class(), ElementsAre(0.5, ::testing::DoubleEq(1.0 / 3), IsNan()));
}

TEST(ConfusionMatrix, OneLogitTellsTwoClassesApart) {
  ConfusionMatrix matrix(1);
  EXPECT_EQ(matrix.classes(), 2);
  matrix.add(torch::tensor({{-1.0}, {1.0}, {2.0}}), classes_of({0, 0, 1}));
  matrix.add(torch::tensor({-1.0, 1.0}), torch::tensor({1.0, 1.0}));
  EXPECT_THAT(matrix.counts(), ElementsAre(1, 1, 1, 2));
}

TEST(ConfusionMatrix, RefusesWhatIsNoClass) {
  EXPECT_THROW(ConfusionMatrix(0), InputError);
  ConfusionMatrix matrix(3);
  const auto refusal = [&](std::int64_t classes, std::int64_t target) {
    const auto logits = torch::zeros({1, classes});
    return message_of<InputError>([&] { matrix.add(logits, classes_of({target})); });
  };
  EXPECT_TRUE(says(refusal(3, 3), {"target 3, expected a class from 0 to 2"}));
  EXPECT_TRUE(says(refusal(3, -1), {"target -1"}));
  EXPECT_TRUE(says(refusal(4, 1), {"logits of 4 classes for a confusion matrix of 3"}));
  EXPECT_THAT(matrix.counts(), ::testing::Each(0));
}

}  // namespace
}  // namespace kolo::testing
