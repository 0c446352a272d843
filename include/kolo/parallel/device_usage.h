#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "kolo/base/clock.h"
#include "kolo/base/nvml.h"
#include "kolo/comm/communicator.h"
#include "kolo/comm/device.h"

namespace c10 {
struct Device;
}

namespace kolo {

// Energy and work of a device over a stretch of time. NaN: the device does not tell.
struct DeviceUsage {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  double seconds = 0;
  double joules = unknown;       // taken
  double utilization = unknown;  // in which share of the time a kernel ran, 0 to 1
  double megahertz = unknown;    // the mean of its multiprocessors' clock
  double celsius = unknown;      // at most

  [[nodiscard]] double watts() const { return joules / seconds; }
};

// One stretch of time after another: joules and seconds add up, the rest are means over the time,
// and the highest temperature. One without seconds says nothing.
[[nodiscard]] DeviceUsage one_after_another(std::span<const DeviceUsage> stretches);
// Several devices at one time: joules add up, the rest are means over devices, and the highest
// temperature. One without seconds is of no device.
[[nodiscard]] DeviceUsage side_by_side(std::span<const DeviceUsage> devices);

// "1.53 kW, 92.1 kJ, 97 % busy, 1755 MHz, 61 C at most": what is known of it.
[[nodiscard]] std::string describe(const DeviceUsage& usage);

// Memory of a device that this process has had since it began.
struct DeviceMemoryUse {
  std::int64_t peak_allocated_bytes = 0;  // by tensors
  std::int64_t peak_reserved_bytes = 0;   // that LibTorch's allocator has taken for them
  DeviceMemory device;                    // what is free now, whoever has the rest
};

// Reads a device now and then, on a thread of its own. Energy is the device's own count, where it
// has one.
class DeviceUsageMonitor {
 public:
  explicit DeviceUsageMonitor(NvmlDevice device,
                              std::chrono::milliseconds interval = std::chrono::seconds(1));

  // Since the last call; since it was made at first. Thread-safe.
  [[nodiscard]] DeviceUsage take();

 private:
  // A mean of what was read; not a number before anything was.
  struct Mean {
    double sum = 0;
    std::int64_t count = 0;
    void add(const std::optional<double>& value);
    [[nodiscard]] double value() const;
  };

  void sample();  // the mutex is held
  void sample_until(const std::stop_token& stop);
  void start_again();  // the mutex is held

  NvmlDevice device_;
  std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  Stopwatch since_begin_;
  std::optional<double> joules_at_begin_;
  Mean watts_, utilization_, megahertz_;
  double celsius_ = DeviceUsage::unknown;
  std::jthread sampler_;  // last: it uses all of the above
};

// Monitor of this rank's device. None for the host, where nothing can be read, and where a rank
// before this one has the same device, which is counted once. `library`: Nvml's. Collective.
[[nodiscard]] std::unique_ptr<DeviceUsageMonitor> monitor_device(
    const Communicator& communicator, const c10::Device& device,
    const std::shared_ptr<const DeviceRuntime>& runtime = cuda_runtime(),
    const std::string& library = "libnvidia-ml.so.1");

// All ranks', by rank; without seconds where a rank has none. Collective.
[[nodiscard]] std::vector<DeviceUsage> gather(const Communicator& communicator,
                                              const std::optional<DeviceUsage>& mine);

}  // namespace kolo
