// When a device does what it is given, without waiting for it.
#include <gmock/gmock.h>

#include "support/simulated_device/device.h"
#include "support/ticking_runtime.h"

#include "kolo/parallel/device_clock.h"

namespace kolo::testing {
namespace {

class DeviceClockTest : public ::testing::Test {
 protected:
  std::shared_ptr<TickingRuntime> runtime_ = std::make_shared<TickingRuntime>();
  DeviceClock clock_{simulated::device(), runtime_};
};

TEST_F(DeviceClockTest, TellsTheDevicesTimes) {
  const auto first = clock_.now();
  (void)clock_.now();
  const auto third = clock_.now();
  EXPECT_FALSE(third.is_past());
  EXPECT_EQ(runtime_->waits(), 0);
  EXPECT_EQ(third.seconds_since(first), 2);
  EXPECT_TRUE(third.is_past());
}

TEST_F(DeviceClockTest, AddsTimesUpWithoutWaiting) {
  DeviceTimeSum sum;
  for (int i = 0; i < 3; ++i) {
    const auto begin = clock_.now();
    (void)clock_.now();
    sum.add(begin, clock_.now());
    if (i == 1) runtime_->come_to_all();
  }
  EXPECT_EQ(runtime_->waits(), 0);
  EXPECT_EQ(sum.seconds(), 6);
  EXPECT_EQ(runtime_->waits(), 1);  // for the last, which the device had not come to
  EXPECT_EQ(sum.seconds(), 6);
}

TEST_F(DeviceClockTest, KnowsNoTimesInAGraphThatIsRecorded) {
  DeviceTimeSum sum;
  const auto before = clock_.now();
  runtime_->set_recording_graph(true);
  const auto recorded = clock_.now();
  EXPECT_FALSE(recorded.is_known());
  sum.add(before, recorded);
  EXPECT_EQ(sum.seconds(), 0);
  EXPECT_EQ(runtime_->waits(), 0);
}

TEST(DeviceClockOfTheHost, IsTheHostsClock) {
  const DeviceClock clock;
  const auto first = clock.now(), second = clock.now();
  EXPECT_TRUE(second.is_past());
  EXPECT_GE(second.seconds_since(first), 0);
  EXPECT_EQ(second.seconds_since({}), 0);
  EXPECT_FALSE(DeviceClock(simulated::device()).is_of_device());  // nobody knows its runtime
}

}  // namespace
}  // namespace kolo::testing
