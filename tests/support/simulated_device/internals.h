#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>

// Parts of the simulated accelerator that only its own sources use.
namespace kolo::testing::simulated {

// Dispatch keys of the device's tensors. LibTorch lets a parameter of the host become one of
// another device (Module::to(), set_data()) only where it takes both back ends for dense ones,
// which PrivateUse1 is not in its eyes and XPU is. Kernels are looked up by the later of the two,
// PrivateUse1.
inline constexpr c10::DispatchKeySet kDeviceKeys =
    c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) |
    c10::DispatchKeySet(c10::BackendComponent::XPUBit);

// Allocator of a device's storages; without an index: of the calling thread's current device.
[[nodiscard]] c10::Allocator& allocator_of(c10::Device device);

// The device that operators of this thread use when none is named.
[[nodiscard]] c10::DeviceIndex current_device();

// A generator that LibTorch takes for the device's own. The default one draws from the CPU's
// default generator, so that at::manual_seed() reaches it in every version of LibTorch.
[[nodiscard]] const at::Generator& default_generator(c10::DeviceIndex index);
[[nodiscard]] at::Generator new_generator(c10::DeviceIndex index);

// The CPU's generator behind one of these; any other as it is.
[[nodiscard]] at::Generator host_generator(const at::Generator& generator);

// Late copies wait in a stream other than the default one until something waits for them, as late
// as a device may do them: code that forgets to wait reads old values, and code that reuses the
// source too early sends new ones. Thread-safe.

// Number of copies that a stream was ever given.
using StreamPoint = std::uint64_t;

void add_late_copy(const c10::Stream& stream, std::function<void()> copy);
[[nodiscard]] StreamPoint end_of(const c10::Stream& stream);
// Does the copies up to this point, or all.
void finish_copies(const c10::Stream& stream, StreamPoint until = ~StreamPoint{0});
// Tells whether they are done; does one of them if not, so that asking again gets on.
[[nodiscard]] bool are_copies_done(const c10::Stream& stream, StreamPoint until);

// The device tensors of one call of an operator as the CPU's kernels may see them: CPU tensors over
// the host view of the same memory, which share storages where the device's do. What the kernel
// then does to sizes and storages happens to the device's tensors too, and what it returns becomes
// a device tensor: the argument itself, a view of an argument's storage, or a copy in new memory.
class HostViews {
 public:
  // View of a device tensor; other tensors and values stay as they are.
  [[nodiscard]] at::Tensor view(const at::Tensor& tensor);
  [[nodiscard]] c10::IValue view(const c10::IValue& value);

  // After the kernel, before result().
  void take_over_changes();

  [[nodiscard]] at::Tensor result(const at::Tensor& host);
  [[nodiscard]] c10::IValue result(const c10::IValue& value);

  // Device of new results: that of the arguments, or the one that was set.
  [[nodiscard]] c10::Device device() const { return device_; }
  void set_device(c10::Device device) { device_ = device; }
  [[nodiscard]] bool has_device_tensors() const { return !tensors_.empty(); }

 private:
  struct Storages {
    c10::Storage device, host;
    std::size_t bytes;
    const void* data;  // the host's, before the kernel
  };
  struct Tensors {
    at::Tensor device, host;
  };

  [[nodiscard]] c10::Storage host_storage(const c10::Storage& device);
  [[nodiscard]] c10::Storage device_storage(const c10::Storage& host);

  c10::Device device_ = c10::Device(c10::DeviceType::PrivateUse1, -1);
  std::vector<Storages> storages_;
  std::vector<Tensors> tensors_;
};

// Gives a device storage memory of another size, with the old content as far as there is room.
void resize_storage(const c10::Storage& storage, std::size_t bytes);

}  // namespace kolo::testing::simulated
