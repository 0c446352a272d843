#include <array>
#include <chrono>
#include <cmath>

#include <gmock/gmock.h>
#include <torch/cuda.h>

#include "kolo/comm/threads.h"
#include "kolo/parallel/device_clock.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/parallel/device_usage.h"
#include "support/errors.h"
#include "support/fake_nvml.h"
#include "support/gpu.h"
#include "support/simulated_device/device.h"
#include "support/ticking_runtime.h"

namespace kolo::testing {
namespace {

// Its thread does not come to read, unless it is told to every millisecond.
DeviceUsageMonitor monitor_of(const char* library,
                              std::chrono::milliseconds interval = std::chrono::hours(1)) {
  return DeviceUsageMonitor(NvmlDevice(std::make_shared<Nvml>(library), fake_nvml_place), interval);
}

TEST(DeviceUsage, OfStretchesAndDevicesTogether) {
  const std::array parts = {DeviceUsage{1, 100, .5, 1000, 40}, DeviceUsage{3, 900, .9, 2000, 70},
                            DeviceUsage{}};
  const auto later = one_after_another(parts);
  EXPECT_EQ(later.seconds, 4);
  EXPECT_EQ(later.watts(), 250);
  EXPECT_DOUBLE_EQ(later.utilization, .8);
  EXPECT_EQ(later.megahertz, 1750);
  EXPECT_EQ(later.celsius, 70);
  const auto beside = side_by_side(parts);
  EXPECT_EQ(beside.seconds, 3);
  EXPECT_EQ(beside.joules, 1000);
  EXPECT_DOUBLE_EQ(beside.utilization, .7);
  EXPECT_EQ(side_by_side({}).seconds, 0);
}

TEST(DeviceUsage, WhatOneDeviceDoesNotTellIsUnknownOfAll) {
  const std::array devices = {DeviceUsage{1, 100, .5, 1000, 40},
                              DeviceUsage{1, DeviceUsage::unknown, .5, 1000, 50}};
  EXPECT_TRUE(std::isnan(side_by_side(devices).joules));
  EXPECT_EQ(side_by_side(devices).megahertz, 1000);
}

TEST(DeviceUsage, IsDescribedByWhatIsKnown) {
  EXPECT_EQ(describe({60, 91800, .97, 1755, 61}),
            "1.53 kW, 91.8 kJ, 97 % busy, 1755 MHz, 61 C at most");
  EXPECT_EQ(describe({2, 10}), "5 W, 10 J");
  EXPECT_EQ(describe({2}), "nothing is known");
}

TEST(DeviceUsageMonitor, TakesEnergyFromTheDevicesCounter) {
  auto monitor = monitor_of(KOLO_FAKE_NVML);
  fake_nvml.millijoules += 7000;
  fake_nvml.celsius = 72;
  const auto first = monitor.take();
  fake_nvml.celsius = 60;
  EXPECT_EQ(first.joules, 7);
  EXPECT_EQ(first.utilization, .5);
  EXPECT_EQ(first.megahertz, 1980);
  EXPECT_EQ(first.celsius, 72);
  fake_nvml.millijoules += 1000;
  EXPECT_EQ(monitor.take().joules, 1) << "since the last call";
  EXPECT_EQ(monitor.take().celsius, 60);
}

TEST(DeviceUsageMonitor, WithoutACounterEnergyIsPowerTimesTime) {
  auto monitor = monitor_of(KOLO_OLD_FAKE_NVML);
  const auto usage = monitor.take();
  EXPECT_GT(usage.seconds, 0);
  EXPECT_DOUBLE_EQ(usage.watts(), 300);
  EXPECT_TRUE(std::isnan(usage.megahertz));
}

TEST(DeviceUsageMonitor, ReadsOnAThreadOfItsOwn) {
  const int before = fake_nvml.readings;
  fake_nvml.busy_percent = 100;
  auto monitor = monitor_of(KOLO_FAKE_NVML, std::chrono::milliseconds(1));
  while (fake_nvml.readings < before + 10) std::this_thread::yield();
  fake_nvml.busy_percent = 0;
  const double utilization = monitor.take().utilization;
  fake_nvml.busy_percent = 50;
  EXPECT_GT(utilization, 0);
  EXPECT_LT(utilization, 1);
}

TEST(MonitorDevice, RanksOnOneDeviceCountItOnce) {
  const auto runtime = std::make_shared<TickingRuntime>();
  run_as_threads(2, [&](const Communicator& communicator) {
    const torch::Device device(torch::kPrivateUse1, 0);
    const auto monitor = monitor_device(communicator, device, runtime, KOLO_FAKE_NVML);
    EXPECT_EQ(monitor != nullptr, communicator.rank() == 0);
    const auto usages =
        gather(communicator, monitor ? std::optional(monitor->take()) : std::nullopt);
    ASSERT_EQ(usages.size(), 2U);
    EXPECT_GT(usages[0].seconds, 0);
    EXPECT_EQ(usages[0].megahertz, 1980);
    EXPECT_EQ(usages[1].seconds, 0);
  });
}

TEST(MonitorDevice, IsNoneWhereNothingTells) {
  const auto runtime = std::make_shared<TickingRuntime>();
  const auto communicator = Communicator::solo();
  EXPECT_EQ(monitor_device(communicator, torch::kCPU, runtime, KOLO_FAKE_NVML), nullptr);
  const torch::Device device(torch::kPrivateUse1, 0);
  EXPECT_EQ(monitor_device(communicator, device, runtime, "libno-nvidia.so.1"), nullptr);
}

// The driver's own library. Its counter of energy is brought up to date some ten times a second.
TEST(MonitorDevice, ReadsAGpu) {
  KOLO_SKIP_WITHOUT_GPU();
  const auto monitor = monitor_device(Communicator::solo(), torch::Device(torch::kCUDA, 0));
  if (!monitor)
    GTEST_SKIP() << "the GPU's driver came without NVML, which reads its counters: "
                 << Nvml().problem();
  auto values = torch::ones({1024, 1024}, torch::kCUDA);
  DeviceUsage usage;
  for (int round = 0; round < 1000 && !(usage.joules > 0); ++round) {
    for (int product = 0; product < 100; ++product) values = values.matmul(values) / 1024;
    EXPECT_EQ(values.mean().item<float>(), 1);
    const std::array parts = {usage, monitor->take()};
    usage = one_after_another(parts);
  }
  EXPECT_GT(usage.watts(), 1);
  EXPECT_LT(usage.watts(), 3000);
  // Parts of a GPU (MIG) tell no use; what is not a number is not out of bounds.
  EXPECT_FALSE(usage.utilization < 0 || usage.utilization > 1) << usage.utilization;
  EXPECT_FALSE(usage.megahertz < 100 || usage.megahertz > 5000) << usage.megahertz;
  EXPECT_FALSE(usage.celsius < 0 || usage.celsius > 120) << usage.celsius;
}

// Messages where a device's memory is not enough.

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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

// Times of what a device does, without waiting for it.

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
