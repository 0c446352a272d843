#include "report/axis.h"

#include <gmock/gmock.h>

namespace kolo {
namespace {

using ::testing::ElementsAre;

TEST(Axis, StepsThatLieCloseTogetherAreToldApart) {
  Extent steps;
  steps.add(12345671);
  steps.add(12345675);
  const Axis axis = linear_axis(steps, {.whole = true, .room = 0});
  EXPECT_EQ(axis.low, 12345671);
  EXPECT_EQ(axis.high, 12345675);
  EXPECT_THAT(tick_labels(axis.ticks),
              ElementsAre("12 345 671", "12 345 672", "12 345 673", "12 345 674", "12 345 675"));
}

TEST(Axis, TheNoiseOfFloat32IsOneValue) {
  Extent losses;
  losses.add(0.5);
  losses.add(0.5000001);
  EXPECT_EQ(linear_axis(losses).low, 0);
  EXPECT_NEAR(linear_axis(losses).high, 1, 1e-6);
}

TEST(Axis, LargeNumbersHaveExponents) {
  EXPECT_THAT(tick_labels({0, 2e7, 4e7}), ElementsAre("0", "2e7", "4e7"));
}

}  // namespace
}  // namespace kolo
