#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <utility>

#include <torch/types.h>

#include "kolo/comm/device.h"

namespace kolo {

// Tells when a device does what it is given: the host's clock would tell when it was given. On the
// host, and on devices whose runtime is not known, it is the host's clock.
class DeviceClock {
 public:
  class Moment;

  // `runtime`: none: cuda_runtime(), for CUDA's devices.
  explicit DeviceClock(const torch::Device& device = torch::kCPU,
                       std::shared_ptr<const DeviceRuntime> runtime = nullptr);

  // When the device gets to the end of what this thread's current stream has been given so far.
  // Waits for nothing. Unknown while a CUDA graph is recorded.
  [[nodiscard]] Moment now() const;
  // Whether it is the device's own.
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
  // Whether the device has got there.
  [[nodiscard]] bool is_past() const { return event_ == nullptr || event_->is_done(); }
  // Waits until it has.
  void wait() const {
    if (event_) event_->wait();
  }
  // Waits for both. 0 where one is unknown.
  [[nodiscard]] double seconds_since(const Moment& earlier) const;

 private:
  friend class DeviceClock;
  using Host = std::chrono::steady_clock::time_point;
  explicit Moment(std::shared_ptr<const DeviceEvent> event) : event_(std::move(event)) {}
  explicit Moment(Host host) : host_(host) {}

  std::shared_ptr<const DeviceEvent> event_;  // none: the host's clock
  Host host_;
};

// A sum of times, each of which is added when the device is done with it, so that nobody waits.
class DeviceTimeSum {
 public:
  void add(DeviceClock::Moment from, DeviceClock::Moment to);
  // Waits for what the device has not done yet.
  [[nodiscard]] double seconds();

 private:
  std::deque<std::pair<DeviceClock::Moment, DeviceClock::Moment>> under_way_;
  double done_ = 0;
};

}  // namespace kolo
