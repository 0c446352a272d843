#include <array>
#include <chrono>
#include <memory>
#include <string>

#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "kolo/base/error.h"
#include "support/simulated_device/device.h"
#include "support/simulated_device/internals.h"

// Devices, streams and events of the simulated accelerator. Operators do their work before they
// return; late copies are done where something waits for them.
namespace kolo::testing::simulated {
namespace {

using Clock = std::chrono::steady_clock;

thread_local c10::DeviceIndex device_of_thread = 0;
thread_local std::array<c10::StreamId, kDevices> streams_of_thread{};

// Record of an event: the time, and the point of its stream.
struct Recorded {
  Clock::time_point time;
  c10::Stream stream;
  StreamPoint point = 0;
};

Recorded& recorded(void* event) {
  return *static_cast<Recorded*>(event);
}

c10::Device checked(c10::Device device) {
  if (device.index() >= 0 && device.index() < kDevices) return device;
  throw Error("simulated device: there is no " + device.str() + "; devices are 0 to " +
              std::to_string(kDevices - 1));
}

c10::StreamId& current_stream(c10::Device device) {
  return streams_of_thread.at(
      static_cast<std::size_t>(device.index() < 0 ? device_of_thread : device.index()));
}

// Some versions of LibTorch lack the functions without `override`.
class DeviceGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  [[nodiscard]] c10::DeviceType type() const override { return kDeviceType; }
  [[nodiscard]] c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  [[nodiscard]] c10::Device getDevice() const override { return device(device_of_thread); }
  void setDevice(c10::Device to) const override { device_of_thread = checked(to).index(); }
  void uncheckedSetDevice(c10::Device to) const noexcept override { device_of_thread = to.index(); }
  [[nodiscard]] c10::Device exchangeDevice(c10::Device to) const override {
    const c10::Device before = getDevice();
    setDevice(to);
    return before;
  }
  void synchronizeDevice(c10::DeviceIndex /*index*/) const {}

  [[nodiscard]] c10::Stream getStream(c10::Device of) const noexcept override {
    return c10::Stream(c10::Stream::UNSAFE, of, current_stream(of));
  }
  [[nodiscard]] c10::Stream getDefaultStream(c10::Device of) const override {
    return c10::Stream(c10::Stream::DEFAULT, of);
  }
  [[nodiscard]] c10::Stream getStreamFromGlobalPool(c10::Device of,
                                                    bool high_priority) const override {
    return c10::Stream(c10::Stream::UNSAFE, of, high_priority ? 2 : 1);
  }
  [[nodiscard]] c10::Stream getNewStream(c10::Device of, int /*priority*/) const {
    return c10::Stream(c10::Stream::UNSAFE, of, 1);
  }
  [[nodiscard]] c10::Stream exchangeStream(c10::Stream to) const noexcept override {
    const c10::Stream before = getStream(to.device());
    current_stream(to.device()) = to.id();
    return before;
  }
  [[nodiscard]] bool queryStream(const c10::Stream& stream) const override {
    return are_copies_done(stream, end_of(stream));
  }
  void synchronizeStream(const c10::Stream& stream) const override { finish_copies(stream); }

  void record(void** event, const c10::Stream& stream, c10::DeviceIndex /*index*/,
              c10::EventFlag /*flag*/) const override {
    const Recorded now{Clock::now(), stream, end_of(stream)};
    if (*event == nullptr)
      *event = std::make_unique<Recorded>(now).release();
    else
      recorded(*event) = now;
  }
  void block(void* event, const c10::Stream& /*stream*/) const override { synchronizeEvent(event); }
  [[nodiscard]] bool queryEvent(void* event) const override {
    return are_copies_done(recorded(event).stream, recorded(event).point);
  }
  void synchronizeEvent(void* event) const {
    if (event != nullptr) finish_copies(recorded(event).stream, recorded(event).point);
  }
  [[nodiscard]] double elapsedTime(void* from, void* to, c10::DeviceIndex /*index*/) const {
    return std::chrono::duration<double, std::milli>(recorded(to).time - recorded(from).time)
        .count();
  }
  void destroyEvent(void* event, c10::DeviceIndex /*index*/) const noexcept override {
    const std::unique_ptr<Recorded> owner(static_cast<Recorded*>(event));
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, DeviceGuard);

}  // namespace

c10::DeviceIndex current_device() {
  return device_of_thread;
}

}  // namespace kolo::testing::simulated
