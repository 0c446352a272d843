#include <cmath>
#include <functional>
#include <numbers>
#include <vector>

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "kolo/optim/learning_rate.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

TEST(ScaleFactor, FollowsTheRanks) {
  EXPECT_EQ(scale_factor(Scaling::none, 16), 1);
  EXPECT_EQ(scale_factor(Scaling::linear, 16), 16);
  EXPECT_EQ(scale_factor(Scaling::sqrt, 16), 4);
  EXPECT_EQ(scale_factor(Scaling::linear, 1), 1);
  EXPECT_EQ(scale_factor(Scaling::sqrt, .25), .5);
  EXPECT_THROW((void)scale_factor(Scaling::none, 0), Error);
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

constexpr std::int64_t total = 40;  // 8 epochs of 5 steps
constexpr double pi = 3.14159265358979323846;

// A schedule, and its factor on the scaled rate after a warm-up of so many steps, written down
// once more.
struct ScheduleCase {
  Schedule schedule;
  std::function<double(std::int64_t step, std::int64_t warmup)> factor;
};

double behind(std::int64_t step, std::int64_t warmup) {
  if (step >= total) return 1;
  return static_cast<double>(step - warmup) / static_cast<double>(total - warmup);
}

std::vector<ScheduleCase> schedule_cases() {
  return {
      {ConstantRate{}, [](auto, auto) { return 1.; }},
      {PiecewiseRate{{{0, 1, 3.}, {2, 4, 1.}, {4, 6, .1}, {7, std::nullopt, .01}}, 5},
       [](auto step, auto) {
         return step < 10 ? 3 : step < 20 ? 1 : step < 35 ? .1 : .01;
       }},
      {CosineDecay{total},
       [](auto step, auto warmup) { return (1 + std::cos(pi * behind(step, warmup))) / 2; }},
      {CosineDecay{total, .2},
       [](auto step, auto warmup) { return .6 + .4 * std::cos(pi * behind(step, warmup)); }},
      {PolynomialDecay{total}, [](auto step, auto warmup) { return 1 - behind(step, warmup); }},
      {PolynomialDecay{total, 2, .1},
       [](auto step, auto warmup) {
         const double left = 1 - behind(step, warmup);
         return .1 + .9 * left * left;
       }},
  };
}

TEST(Schedule, EveryOneWithEveryScalingAndWarmUpFollowsItsFormula) {
  for (const ScheduleCase& each : schedule_cases()) {
    for (const Scaling scaling : {Scaling::none, Scaling::linear, Scaling::sqrt}) {
      for (const std::int64_t warmup : {0, 1, 7, 10}) {
        for (const double from : {0., .25, 1.}) {
          const double factor = scaling == Scaling::none ? 1 : scaling == Scaling::linear ? 9 : 3;
          const LearningRate rate({.02, scaling, 9, warmup, from, each.schedule});
          for (std::int64_t step = 0; step < total + 20; ++step) {
            const double progress = static_cast<double>(step + 1) / static_cast<double>(warmup);
            const double expected = step < warmup
                                        ? .02 * from + progress * (.02 * factor - .02 * from)
                                        : .02 * factor * each.factor(step, warmup);
            ASSERT_NEAR(rate.at(step), expected, 1e-15)
                << rate.schedule_name() << ", factor " << factor << ", warm-up " << warmup
                << " from " << from << ", step " << step;
          }
        }
      }
    }
  }
}

TEST(Schedule, AShiftedCosineIsNotAtItsEndAfterAWarmUp) {
  const LearningRate plain({.base_rate = .2, .schedule = CosineDecay{100, .1, true}});
  EXPECT_EQ(plain.schedule_name(), "cosine_shifted");
  EXPECT_DOUBLE_EQ(plain.at(49), .2 * .55);  // after half of all steps
  EXPECT_DOUBLE_EQ(plain.at(99), .2 * .1);
  EXPECT_DOUBLE_EQ(plain.at(500), .2 * .1);
  const LearningRate warmed({.base_rate = .2,
                             .warmup_steps = 20,
                             .warmup_from = 0,
                             .schedule = CosineDecay{100, 0, true}});
  EXPECT_DOUBLE_EQ(warmed.at(19), .2);
  EXPECT_DOUBLE_EQ(warmed.at(69), .1);
  EXPECT_NEAR(warmed.at(99), .1 * (1 + std::cos(.8 * std::numbers::pi)), 1e-15);
}

TEST(Schedule, AWarmUpCanBeForScaledRatesOnly) {
  for (const double ratio : {.5, 1., 4.}) {
    for (const Scaling scaling : {Scaling::none, Scaling::sqrt}) {
      const LearningRate rate({.base_rate = .2,
                               .scaling = scaling,
                               .batch_ratio = ratio,
                               .warmup_steps = 20,
                               .warmup_from = 0,
                               .warmup_only_when_scaled = true});
      const bool is_warmed = scaling == Scaling::sqrt && ratio > 1;
      EXPECT_EQ(rate.warmup_steps(), is_warmed ? 20 : 0);
      EXPECT_DOUBLE_EQ(rate.at(0), is_warmed ? .02 : rate.scaled_rate());
    }
  }
}

// Rates of torch.optim.lr_scheduler.OneCycleLR(max_lr=.8, total_steps=10).
TEST(OneCycle, IsThatOfPyTorch) {
  const LearningRate rate({.2, Scaling::linear, 4, 0, 1, OneCycle{10}});
  const std::vector<double> expected = {.032, .416, .8};
  for (std::size_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(rate.at(static_cast<std::int64_t>(step)), expected[step], 1e-15);
  }
  const double last = .8 / 25 / 1e4;
  for (std::int64_t step = 2; step < 10; ++step) {
    const double part = static_cast<double>(step - 2) / 7;
    EXPECT_NEAR(rate.at(step), last + (.8 - last) * (1 + std::cos(pi * part)) / 2, 1e-15);
  }
  EXPECT_DOUBLE_EQ(rate.at(9), last);
  EXPECT_DOUBLE_EQ(rate.at(1000), last);
}

TEST(OneCycle, HasNoGapsWhereAPartIsEmpty) {
  const double last = 1 / 25. / 1e4;
  for (const double fraction : {0., .1, .3, .5, 1.}) {
    for (const std::int64_t steps : {1, 2, 3, 10}) {
      const LearningRate rate(
          {.base_rate = 1,
           .schedule = OneCycle{.total_steps = steps, .rising_fraction = fraction}});
      for (std::int64_t step = 0; step < steps + 3; ++step) {
        EXPECT_GE(rate.at(step), last * .999) << fraction << " of " << steps << ", " << step;
        EXPECT_LE(rate.at(step), 1) << fraction << " of " << steps << ", " << step;
      }
      EXPECT_DOUBLE_EQ(rate.at(steps), last);
    }
  }
}

TEST(PiecewiseRate, EpochsMayBeFractionsAndEndsLeftOut) {
  const LearningRate rate(
      {.base_rate = 1,
       .schedule = PiecewiseRate{{{.5, std::nullopt, .5}, {1.26, std::nullopt, .25}}, 10}});
  EXPECT_EQ(rate.at(4), 1);
  EXPECT_EQ(rate.at(5), .5);
  EXPECT_EQ(rate.at(12), .5);
  EXPECT_EQ(rate.at(13), .25);
}

TEST(Schedule, AWarmUpAsLongAsTheTrainingLeavesTheEndOfADecay) {
  const LearningRate rate({.base_rate = 1, .warmup_steps = 50, .schedule = CosineDecay{40, .5}});
  EXPECT_EQ(rate.at(49), 1);
  EXPECT_EQ(rate.at(50), .5);
}

TEST(Schedule, ValuesOutOfRangeAreInputErrors) {
  const auto message = [](const Schedule& schedule, std::int64_t warmup = 0) {
    return message_of<InputError>(
        [&] { LearningRate({.base_rate = 1, .warmup_steps = warmup, .schedule = schedule}); });
  };
  EXPECT_TRUE(says(message(PiecewiseRate{}), {"steps_per_epoch of the piecewise schedule is 0"}));
  EXPECT_TRUE(says(message(PiecewiseRate{{{-1, 4}}, 5}), {"start_epoch of interval 1"}));
  EXPECT_TRUE(says(message(PiecewiseRate{{{0, 4}, {3, 5}}, 5}),
                   {"start_epoch of interval 2 of the piecewise schedule is 3, expected"}));
  EXPECT_TRUE(says(message(PiecewiseRate{{{3, std::nullopt}, {3, 5}}, 5}), {"interval 2"}));
  EXPECT_TRUE(says(message(PiecewiseRate{{{4, 4}}, 5}),
                   {"end_epoch of interval 1 of the piecewise schedule is 4, expected more"}));
  EXPECT_TRUE(says(message(PiecewiseRate{{{0, 4, -.1}}, 5}), {"multiplier of interval 1"}));
  EXPECT_TRUE(says(message(CosineDecay{}), {"total_steps of the cosine schedule is 0"}));
  EXPECT_TRUE(says(message(CosineDecay{10, -1}), {"final_fraction of the cosine"}));
  EXPECT_TRUE(says(message(PolynomialDecay{10, 0}), {"power of the polynomial schedule is 0"}));
  EXPECT_TRUE(says(message(OneCycle{10, 1.5}), {"rising_fraction of the one_cycle"}));
  EXPECT_TRUE(says(message(OneCycle{10, .3, 0}), {"initial_divisor"}));
  EXPECT_TRUE(says(message(OneCycle{10, .3, 25, std::nan("")}), {"final_divisor"}));
  EXPECT_TRUE(says(message(OneCycle{10}, 5), {"give one of the two"}));
}

}  // namespace
}  // namespace kolo::testing
