#include "kolo/optim/learning_rate.h"

#include <cmath>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo {
namespace {

using testing::message_of;

TEST(ScaleFactor, FollowsTheRanks) {
  EXPECT_EQ(scale_factor(Scaling::none, 16), 1);
  EXPECT_EQ(scale_factor(Scaling::linear, 16), 16);
  EXPECT_EQ(scale_factor(Scaling::sqrt, 16), 4);
  EXPECT_EQ(scale_factor(Scaling::linear, 1), 1);
  EXPECT_EQ(scale_factor(Scaling::sqrt, .25), .5);
  EXPECT_THROW((void)scale_factor(Scaling::none, 0), Error);
}

TEST(LearningRate, IsConstantWithoutWarmUp) {
  const LearningRate rate({.base_rate = 0.1, .scaling = Scaling::linear, .batch_ratio = 8});
  EXPECT_EQ(rate.at(0), 0.1 * 8);
  EXPECT_EQ(rate.at(1'000'000'000'000), 0.1 * 8);
}

TEST(LearningRate, WarmsUpLinearlyAndReachesTheScaledRateInTheLastStep) {
  const LearningRate rate(
      {.base_rate = 0.1, .scaling = Scaling::linear, .batch_ratio = 5, .warmup_steps = 100});
  EXPECT_DOUBLE_EQ(rate.at(0), 0.104);
  EXPECT_DOUBLE_EQ(rate.at(24), 0.2);
  EXPECT_DOUBLE_EQ(rate.at(49), 0.3);
  for (int step = 0; step < 99; ++step) {
    EXPECT_NEAR(rate.at(step + 1) - rate.at(step), 0.004, 1e-15) << step;
  }
  EXPECT_EQ(rate.at(99), 0.1 * 5);
  EXPECT_EQ(rate.at(100), 0.1 * 5);
}

TEST(LearningRate, WarmsUpFromAFractionOfTheRate) {
  const LearningRate from_zero({.base_rate = 0.3, .warmup_steps = 10, .warmup_from = 0});
  for (int step = 0; step < 10; ++step) EXPECT_DOUBLE_EQ(from_zero.at(step), 0.03 * (step + 1));
  EXPECT_EQ(from_zero.at(9), 0.3);
  const LearningRate from_half({.base_rate = 0.2,
                                .scaling = Scaling::linear,
                                .batch_ratio = 2,
                                .warmup_steps = 3,
                                .warmup_from = 0.5});
  EXPECT_DOUBLE_EQ(from_half.at(0), 0.2);
  EXPECT_DOUBLE_EQ(from_half.at(1), 0.3);
  EXPECT_EQ(from_half.at(2), 0.4);
}

TEST(LearningRate, WarmUpWithoutScalingKeepsTheRate) {
  const LearningRate rate({.base_rate = 0.01, .batch_ratio = 4, .warmup_steps = 10});
  for (int step = 0; step < 20; ++step) EXPECT_EQ(rate.at(step), 0.01);
}

TEST(LearningRate, ChecksWhatItGets) {
  EXPECT_TRUE(says(message_of<InputError>([] { LearningRate({.base_rate = -1}); }),
                   {"the rate is -1, expected"}));
  EXPECT_THROW(LearningRate({.base_rate = std::nan("")}), InputError);
  EXPECT_TRUE(
      says(message_of<InputError>([] { LearningRate({.base_rate = 1, .warmup_steps = -5}); }),
           {"-5 steps"}));
  EXPECT_TRUE(
      says(message_of<InputError>([] { LearningRate({.base_rate = 1, .warmup_from = 1.5}); }),
           {"from 1.5 of the rate"}));
  EXPECT_THROW((void)LearningRate({.base_rate = 1}).at(-1), Error);
}

TEST(WarmupSteps, CountsEpochsAndTheirFractions) {
  EXPECT_EQ(warmup_steps_of(5, 938), 4690);
  EXPECT_EQ(warmup_steps_of(0, 938), 0);
  EXPECT_EQ(warmup_steps_of(0.5, 938), 469);
  EXPECT_EQ(warmup_steps_of(0.5, 5), 3);      // 2.5 goes up
  EXPECT_EQ(warmup_steps_of(0.1, 30), 3);     // although 0.1 * 30 isn't 3 exactly
  EXPECT_EQ(warmup_steps_of(0.0001, 10), 0);  // less than half a step
  EXPECT_TRUE(
      says(message_of<InputError>([] { (void)warmup_steps_of(-0.5, 10); }), {"-0.5 epochs"}));
  EXPECT_THROW((void)warmup_steps_of(std::nan(""), 10), InputError);
  EXPECT_THROW((void)warmup_steps_of(INFINITY, 10), InputError);
  EXPECT_THROW((void)warmup_steps_of(1e300, 10), InputError);
}

}  // namespace
}  // namespace kolo
