#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <utility>

#include <torch/types.h>

#include "kolo/comm/device.h"

namespace kolo {

// Measures when a device does its work, where the host's clock would measure when it was enqueued.
// The host's clock on the host, and on devices of unknown runtime.
class DeviceClock {
 public:
  class Moment;

  // Without a `runtime`, CUDA's devices have cuda_runtime().
  explicit DeviceClock(const torch::Device& device = torch::kCPU,
                       std::shared_ptr<const DeviceRuntime> runtime = nullptr);

  // Moment at which the device will have done all work given to this thread's current stream so
  // far. Doesn't wait. Unknown while a CUDA graph is captured.
  [[nodiscard]] Moment now() const;
  // Whether times are the device's own.
  [[nodiscard]] bool is_of_device() const { return runtime_ != nullptr; }

 private:
  torch::Device device_;
  std::shared_ptr<const DeviceRuntime> runtime_;  // none: the host's clock
};

// A moment of one DeviceClock.
class DeviceClock::Moment {
 public:
  Moment() = default;  // unknown

  [[nodiscard]] bool is_known() const { return event_ != nullptr || host_ != Host(); }
  // Whether the device has reached it.
  [[nodiscard]] bool is_past() const { return event_ == nullptr || event_->is_done(); }
  // Waits until the device has reached it.
  void wait() const {
    if (event_) event_->wait();
  }
  // Waits for both moments; 0 where one is unknown.
  [[nodiscard]] double seconds_since(const Moment& earlier) const;

 private:
  friend class DeviceClock;
  using Host = std::chrono::steady_clock::time_point;
  explicit Moment(std::shared_ptr<const DeviceEvent> event) : event_(std::move(event)) {}
  explicit Moment(Host host) : host_(host) {}

  std::shared_ptr<const DeviceEvent> event_;  // none: the host's clock
  Host host_;
};

// A sum of durations. Each is added once the device has passed its end, so adding never waits.
class DeviceTimeSum {
 public:
  void add(DeviceClock::Moment from, DeviceClock::Moment to);
  // Waits until the device has reached all moments.
  [[nodiscard]] double seconds();

 private:
  std::deque<std::pair<DeviceClock::Moment, DeviceClock::Moment>> under_way_;
  double done_ = 0;
};

}  // namespace kolo
