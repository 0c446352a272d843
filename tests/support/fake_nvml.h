#pragma once

#include <atomic>

// A libnvidia-ml.so.1 of one device, for tests: built as KOLO_FAKE_NVML, and, as drivers of old
// devices have it, without the counter of energy and the clock, as KOLO_OLD_FAKE_NVML.
namespace kolo::testing {

struct FakeNvml {
  // What a function answers instead of a value, if it is not 0.
  std::atomic<int> init_status = 0, power_status = 0, utilization_status = 0;
  std::atomic<unsigned> milliwatts = 300'000, busy_percent = 50, megahertz = 1980, celsius = 60;
  std::atomic<unsigned long long> millijoules = 5'000'000;
  std::atomic<int> readings = 0, started = 0;  // of the power; inits without their shutdown
};

inline constexpr auto* fake_nvml_place = "0000:41:00.0";  // of the device, on the PCI bus

extern FakeNvml fake_nvml;

}  // namespace kolo::testing
