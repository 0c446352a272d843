// Measurements of a trainer whose device works asynchronously.
#include <gmock/gmock.h>

#include "support/simulated_device/device.h"
#include "support/simulated_device/runtime.h"
#include "support/ticking_runtime.h"
#include "train/training_fixture.h"

#include "kolo/study/measure.h"

namespace kolo::testing {
namespace {

class MeasureOnADevice : public ::testing::Test {
 protected:
  static TrainingSetup setup() {
    TrainingSetup setup{.samples = 60, .dropout = 0};
    setup.device = [](int rank) { return simulated::device(rank); };
    return setup;
  }

  Communicator solo_ = Communicator::solo({.runtime = simulated::runtime()});
  SmallTraining training_{solo_, setup()};
  std::shared_ptr<TickingRuntime> runtime_ = std::make_shared<TickingRuntime>();
  BenchPlan plan_{.steps = 3, .warmup = 2, .trials = 2, .device_runtime = runtime_};
};

// A second passes from event to event: at a step's beginning, before backward, of each gradient,
// and at the end.
TEST_F(MeasureOnADevice, PartsOfStepsHaveTheDevicesTimes) {
  const auto profile = measure_profile(solo_, training_.trainer(), training_.network(),
                                       training_.validation(), plan_);
  const auto gradients = static_cast<double>(training_.network().parameters().size());
  EXPECT_EQ(profile.forward_seconds, 1);
  EXPECT_EQ(profile.backward_seconds, gradients);
  EXPECT_EQ(profile.optimizer_seconds, 1);
  EXPECT_EQ(profile.slowest_seconds, gradients + 2);
  EXPECT_EQ(profile.deviation_seconds, 0);
  ASSERT_GT(profile.buckets.size(), 1U);
  EXPECT_EQ(profile.buckets.back().ready_seconds, gradients);
  EXPECT_LT(profile.buckets.front().ready_seconds, gradients);
}

TEST_F(MeasureOnADevice, StepsAreNotWaitedFor) {
  const auto trials = measure_training(solo_, training_.trainer(), training_.validation(), plan_);
  ASSERT_EQ(trials.size(), 2U);
  for (const auto& trial : trials) {
    EXPECT_EQ(trial.data_seconds, 3);  // a second for each batch
    EXPECT_GT(trial.seconds, 0);
    EXPECT_EQ(trial.samples, 27);  // 37 samples in batches of 10, again and again
  }
  EXPECT_EQ(runtime_->recorded(), 2 * 8);  // around each batch, the warm-up's too
  EXPECT_LE(runtime_->waits(), 2 * 3);     // where a trial ends
}

TEST(MeasureOnTheHost, OneRankHasAForwardToo) {
  const auto solo = Communicator::solo();
  SmallTraining training(solo, {.samples = 60, .dropout = 0});
  const auto profile =
      measure_profile(solo, training.trainer(), training.network(), training.validation(),
                      {.steps = 2, .warmup = 1, .trials = 1});
  EXPECT_GT(profile.forward_seconds, 0);
  EXPECT_GT(profile.backward_seconds, 0);
}

}  // namespace
}  // namespace kolo::testing
