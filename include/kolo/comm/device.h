#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kolo/base/enum_names.h"
#include "kolo/comm/data_type.h"

namespace kolo {

// A point in the work of a stream. May be used from any thread.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  // Whether the device has got there. Throws Error when the device has failed.
  [[nodiscard]] virtual bool is_done() const = 0;
  // Blocks until it has.
  virtual void wait() const = 0;
  // What `stream`, of the same device, is given from now on begins after this point. Does not
  // block.
  virtual void hold_back(DeviceStream stream) const = 0;
};

// The devices that a process may use.
struct DeviceCount {
  int devices = 0;
  std::string problem;  // why there are none, in the runtime's words
};

// What collectives on a device's memory need of the device's runtime: CUDA's, or in tests a
// simulated one. Devices are numbered as the runtime does for this process. Thread-safe; everything
// throws Error where the runtime does not do it.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;

  // "cuda"
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual DeviceCount count() const = 0;
  // Equal for two processes of a machine where their devices are the same piece of hardware.
  [[nodiscard]] virtual std::string hardware(int device) const = 0;
  // The device that this memory is on. Error for memory of the host.
  [[nodiscard]] virtual int device_of(const void* memory) const = 0;
  // The one that this thread works with.
  [[nodiscard]] virtual int current_device() const = 0;

  // A stream of its own that goes before others where the device has to choose.
  [[nodiscard]] virtual std::shared_ptr<void> make_stream(int device) const = 0;
  // After all that the stream has been given so far.
  [[nodiscard]] virtual std::shared_ptr<DeviceEvent> record(int device,
                                                            DeviceStream stream) const = 0;
  // Between memory of the device and memory of the host or of the same device, in the stream's
  // order. With the host's it may block, unless that is pinned: allocate_pinned(), pin().
  virtual void copy(int device, void* to, const void* from, std::size_t bytes,
                    DeviceStream stream) const = 0;

  // At least 256-byte aligned; the content is undefined.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate(int device,
                                                            std::size_t bytes) const = 0;
  // Host memory that the device reads and writes by itself. Takes long: keep it.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) const = 0;
  // The same of memory that is there already, as long as what is returned is kept, which keeps the
  // memory too.
  [[nodiscard]] virtual std::shared_ptr<std::byte> pin(std::shared_ptr<std::byte> memory,
                                                       std::size_t bytes) const = 0;
};

// CUDA's; null where kolo was built without it (KOLO_CUDA). Never asks the driver anything, so it
// costs nothing where no device is used.
[[nodiscard]] std::shared_ptr<const DeviceRuntime> cuda_runtime();

// How collectives on devices' memory travel.
enum class DeviceChannelKind : std::uint8_t {
  automatic,  // nccl where every rank has a device of its own, otherwise staged
  nccl,       // NVIDIA's library: on the devices' own links, in the order of streams
  staged,     // through pinned memory of the host, and then as the host's own collectives
};

constexpr auto enum_names(DeviceChannelKind) {
  return std::to_array<EnumName<DeviceChannelKind>>({{DeviceChannelKind::automatic, "auto"},
                                                     {DeviceChannelKind::nccl, "nccl"},
                                                     {DeviceChannelKind::staged, "staged"}});
}

struct DeviceOptions {
  DeviceChannelKind channel = DeviceChannelKind::automatic;
  // Of each of the two pieces of pinned memory that a staged collective goes through.
  std::size_t staging_bytes = std::size_t{4} << 20;
  std::shared_ptr<const DeviceRuntime> runtime;  // none: cuda_runtime()
};

}  // namespace kolo
