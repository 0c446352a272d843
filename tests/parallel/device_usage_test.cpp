#include "kolo/parallel/device_usage.h"

#include <array>
#include <chrono>
#include <cmath>

#include <gmock/gmock.h>
#include <torch/cuda.h>

#include "kolo/comm/threads.h"
#include "support/fake_nvml.h"
#include "support/gpu.h"
#include "support/ticking_runtime.h"

namespace kolo {
namespace {

using testing::fake_nvml;
using testing::fake_nvml_place;
using testing::TickingRuntime;

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
    const auto monitor = monitor_device(communicator, device, {runtime, KOLO_FAKE_NVML});
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
  EXPECT_EQ(monitor_device(communicator, torch::kCPU, {runtime, KOLO_FAKE_NVML}), nullptr);
  const torch::Device device(torch::kPrivateUse1, 0);
  EXPECT_EQ(monitor_device(communicator, device, {runtime, "libno-nvidia.so.1"}), nullptr);
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

}  // namespace
}  // namespace kolo
