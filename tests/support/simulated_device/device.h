#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "support/simulated_device/memory.h"

// A simulated accelerator for LibTorch: device type PrivateUse1, with kDevices devices. A program
// that links kolo_simulated_device has it.
//
// Its tensors lie in memory that host code cannot touch (memory.h). Every operator runs on the
// CPU's kernel over the host view of the same memory, at once, so results have the bits of a CPU
// with as many threads; but copies from the host that need not wait, in streams other than the
// default one, are done as late as events and streams allow (internals.h). As on a GPU, tensors
// of several devices in one operator are an error, and so are host tensors other than scalars and
// indices; new memory is not zero but full of NaN. Random numbers come from the CPU's default
// generator unless an operator is given another.
namespace kolo::testing::simulated {

inline constexpr c10::DeviceType kDeviceType = c10::DeviceType::PrivateUse1;

[[nodiscard]] inline c10::Device device(int index = 0) {
  return {kDeviceType, static_cast<c10::DeviceIndex>(index)};
}

// How often host code has waited for a device of this process so far, as on a GPU it would have:
// for a value, an operator whose result's size is decided there, or a copy that is not asked to go
// on by itself.
[[nodiscard]] std::int64_t host_waits();

// A CPU tensor over the memory of a device tensor, as a test may look at it while no operator runs
// on it; not beyond the device tensor's life.
[[nodiscard]] at::Tensor host_tensor(const at::Tensor& device_tensor);

}  // namespace kolo::testing::simulated
