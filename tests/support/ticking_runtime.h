#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "kolo/base/error.h"
#include "kolo/comm/device.h"

namespace kolo::testing {

// Device runtime on which a second passes between two events; an event happens when somebody waits
// for it, or the test lets it.
class TickingRuntime final : public DeviceRuntime {
 public:
  void come_to_all() { reached_ = recorded_; }
  [[nodiscard]] int recorded() const { return recorded_; }
  [[nodiscard]] int waits() const { return waits_; }
  void set_capturing(bool is_recording) { is_capturing_ = is_recording; }

  [[nodiscard]] std::shared_ptr<DeviceEvent> record_timed(int /*device*/,
                                                          DeviceStream /*stream*/) const override {
    return is_capturing_ ? nullptr : std::make_shared<Event>(*this, ++recorded_);
  }
  [[nodiscard]] std::string_view name() const override { return "ticking"; }
  [[nodiscard]] DeviceCount count() const override { return {1, ""}; }
  [[nodiscard]] std::string hardware(int /*device*/) const override { return "0"; }
  [[nodiscard]] std::string pci_bus_id(int /*device*/) const override { return "0000:41:00.0"; }
  [[nodiscard]] int current_device() const override { return 0; }
  [[nodiscard]] DeviceMemory memory(int /*device*/) const override { return {1000, 4000}; }

  [[nodiscard]] int device_of(const void* /*memory*/) const override { refuse(); }
  [[nodiscard]] std::shared_ptr<void> make_stream(int /*device*/) const override { refuse(); }
  [[nodiscard]] std::shared_ptr<DeviceEvent> record(int /*device*/,
                                                    DeviceStream /*stream*/) const override {
    refuse();
  }
  void copy(int, void*, const void*, std::size_t, DeviceStream) const override { refuse(); }
  [[nodiscard]] std::shared_ptr<std::byte> allocate(int, std::size_t) const override { refuse(); }
  void use(int /*device*/) const override { refuse(); }
  [[nodiscard]] std::shared_ptr<std::byte> allocate_pinned(int, std::size_t) const override {
    refuse();
  }
  [[nodiscard]] std::shared_ptr<std::byte> pin(int, std::shared_ptr<std::byte>,
                                               std::size_t) const override {
    refuse();
  }

 private:
  class Event final : public DeviceEvent {
   public:
    Event(const TickingRuntime& runtime, int number) : runtime_(runtime), number_(number) {}
    [[nodiscard]] bool is_done() const override { return number_ <= runtime_.reached_; }
    void wait() const override {
      if (is_done()) return;
      ++runtime_.waits_;
      runtime_.reached_ = number_;
    }
    void hold_back(DeviceStream /*stream*/) const override { refuse(); }
    [[nodiscard]] double seconds_since(const DeviceEvent& earlier) const override {
      wait();
      return number_ - dynamic_cast<const Event&>(earlier).number_;
    }

   private:
    const TickingRuntime& runtime_;
    int number_;
  };

  [[noreturn]] static void refuse() { throw Error("ticking: it has events and nothing else"); }

  mutable int recorded_ = 0, reached_ = 0, waits_ = 0;
  bool is_capturing_ = false;
};

}  // namespace kolo::testing
