#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kolo/base/enum_names.h"
#include "kolo/base/error.h"
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
  // Lets later work of `stream`, of the same device, begin after this point. Does not block.
  virtual void hold_back(DeviceStream stream) const = 0;
  // Seconds that the device took from there to here. Both must be of record_timed() and of one
  // device. Waits for both.
  [[nodiscard]] virtual double seconds_since(const DeviceEvent& /*earlier*/) const {
    throw Error("device: the time of an event was asked for that has none");
  }
};

// Devices that a process may use.
struct DeviceCount {
  int devices = 0;
  std::string problem;  // why there are none, in the runtime's words
};

struct DeviceMemory {
  std::size_t free_bytes = 0, total_bytes = 0;
};

// Use of a device's memory by this process.
struct DeviceMemoryUse {
  std::int64_t peak_allocated_bytes = 0;  // by tensors
  std::int64_t peak_reserved_bytes = 0;   // by LibTorch's allocator, for them
  DeviceMemory device;                    // now, of all processes
};

// Part of a device's runtime that collectives on its memory need: CUDA's, or in tests a simulated
// one. Devices have the runtime's numbers in this process. Thread-safe; throws Error where the
// runtime fails.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;

  // "cuda"
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual DeviceCount count() const = 0;
  // Equal for two processes of a machine where their devices are the same piece of hardware.
  [[nodiscard]] virtual std::string hardware(int device) const = 0;
  // Bus address, by which the driver's tools know the device: "0000:41:00.0". Empty: none.
  [[nodiscard]] virtual std::string pci_bus_id(int /*device*/) const { return {}; }
  // Device that this memory is on. Error for memory of the host.
  [[nodiscard]] virtual int device_of(const void* memory) const = 0;
  // Device that this thread works with; use() changes it.
  [[nodiscard]] virtual int current_device() const = 0;
  virtual void use(int device) const = 0;
  [[nodiscard]] virtual DeviceMemory memory(int device) const = 0;

  // Makes a stream that the device prefers to others.
  [[nodiscard]] virtual std::shared_ptr<void> make_stream(int device) const = 0;
  // Event after all that the stream has been given so far.
  [[nodiscard]] virtual std::shared_ptr<DeviceEvent> record(int device,
                                                            DeviceStream stream) const = 0;
  // Tells whether work of the stream is captured for a graph of the device instead of done.
  [[nodiscard]] virtual bool is_captured(DeviceStream /*stream*/) const { return false; }
  // Event with the time at which the device gets there; null while the stream is captured as a
  // graph.
  [[nodiscard]] virtual std::shared_ptr<DeviceEvent> record_timed(int device,
                                                                  DeviceStream stream) const = 0;
  // Copies between memory of the device and memory of the host or of the same device, in the
  // stream's order. May block where the host's memory is not pinned: allocate_pinned(), pin().
  virtual void copy(int device, void* to, const void* from, std::size_t bytes,
                    DeviceStream stream) const = 0;

  // At least 256-byte aligned; the content is undefined.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate(int device,
                                                            std::size_t bytes) const = 0;
  // Memory of the host that the device reads and writes by itself. Making it takes long: keep it.
  [[nodiscard]] virtual std::shared_ptr<std::byte> allocate_pinned(int device,
                                                                   std::size_t bytes) const = 0;
  // Pins memory for as long as the returned pointer is kept, which keeps `memory` too.
  [[nodiscard]] virtual std::shared_ptr<std::byte> pin(int device,
                                                       std::shared_ptr<std::byte> memory,
                                                       std::size_t bytes) const = 0;
};

// CUDA's runtime; null where kolo was built without it (KOLO_CUDA). Doesn't touch the driver, so it
// costs nothing where no device is used.
[[nodiscard]] std::shared_ptr<const DeviceRuntime> cuda_runtime();

// "NCCL 2.28.9"; empty where kolo was built without.
[[nodiscard]] std::string nccl_version();

// Lets NCCL write what it does at its start into memory, from which device_transport takes the
// network's name; does nothing where NCCL_DEBUG is set. Changes the environment, so call it before
// other threads read that, and before the first collective on devices.
void log_nccl_start();

// Transport of collectives on devices' memory.
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
  // Size of each of the two pieces of pinned memory that staged goes through.
  std::size_t staging_bytes = std::size_t{4} << 20;
  std::shared_ptr<const DeviceRuntime> runtime;  // none: cuda_runtime()
};

}  // namespace kolo
