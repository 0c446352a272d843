#pragma once

#include <cstddef>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>

namespace kolo::testing::simulated {

// The device tensors of one call of an operator as the CPU's kernels may see them: CPU tensors over
// the host view of the same memory, which share storages where the device's do. What the kernel
// then does to sizes and storages happens to the device's tensors too, and what it returns becomes
// a device tensor: the argument itself, a view of an argument's storage, or a copy in new memory.
class HostViews {
 public:
  // Of a device tensor; any other tensor, and what is no tensor, as it is.
  [[nodiscard]] at::Tensor view(const at::Tensor& tensor);
  [[nodiscard]] c10::IValue view(const c10::IValue& value);

  // After the kernel, before result().
  void take_over_changes();

  [[nodiscard]] at::Tensor result(const at::Tensor& host);
  [[nodiscard]] c10::IValue result(const c10::IValue& value);

  // Where new results go: the device of the arguments, or the one that was set.
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
