#include "kolo/parallel/device_clock.h"
#include "kolo/parallel/device_memory.h"
#include "support/errors.h"
#include "support/matchers.h"
#include "support/simulated_device/device.h"
#include "support/ticking_runtime.h"

namespace kolo::testing {
namespace {

// Messages where a device's memory is not enough.

[[noreturn]] void run_out_of_memory() {
  TORCH_CHECK_WITH(OutOfMemoryError, false, "tried to allocate 2 GiB\nbacktrace");
}

TEST(DeviceMemory, IsToldByPhaseWhatThereIsAndWhatToDo) {
  const DeviceMemoryUse use{std::int64_t{70} << 30,
                            std::int64_t{75} << 30,
                            {std::size_t{1} << 30, std::size_t{80} << 30}};
  EXPECT_THAT(
      describe_out_of_memory("backward", {torch::kCUDA, 1}, use, "no 2 GiB\nbacktrace"),
      AllOf(HasSubstr("cuda:1"), HasSubstr("backward"), HasSubstr("1.00 GiB of 80.00 GiB"),
            HasSubstr("70.00 GiB at most"), HasSubstr("reserved 75.00 GiB"),
            HasSubstr("training.batch_size"), HasSubstr("no 2 GiB"), Not(HasSubstr("backtrace"))));
  EXPECT_FALSE(memory_use(torch::kCPU).has_value());
}

TEST(DeviceMemory, AStepThatDoesNotFitNamesItsPhase) {
  const auto message = message_of<Error>(
      [&] { in_phase("forward", simulated::device(), [] { run_out_of_memory(); }); });
  EXPECT_THAT(message, AllOf(HasSubstr("forward"), HasSubstr(simulated::device().str()),
                             HasSubstr("tried to allocate"), Not(HasSubstr("backtrace"))));
  EXPECT_EQ(in_phase("forward", torch::kCPU, [] { return 3; }), 3);
}

// Times of a device's work, without waiting for it.

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
  runtime_->set_capturing(true);
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
