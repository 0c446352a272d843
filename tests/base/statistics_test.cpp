#include "kolo/base/statistics.h"

#include <gtest/gtest.h>

namespace kolo::testing {
namespace {

TEST(Statistics, MeanAndDeviationAreOfSingleValues) {
  const auto value = mean_and_deviation({1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(value.mean, 2.5);
  EXPECT_DOUBLE_EQ(value.deviation, std::sqrt(5.0 / 3));
  EXPECT_EQ(mean_and_deviation({7}).mean, 7);
  EXPECT_EQ(mean_and_deviation({7}).deviation, 0);
}

TEST(Statistics, TheMedianIsNoOutlier) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({1000, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 3);
}

}  // namespace
}  // namespace kolo::testing
