#pragma once

#include <cstddef>

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>

namespace kolo::testing::simulated {

// The dispatch keys of the device's tensors. LibTorch lets a parameter of the host become one of
// another device (Module::to(), set_data()) only where it takes both back ends for dense ones,
// which PrivateUse1 is not in its eyes and XPU is. Kernels are looked up by the later of the two,
// PrivateUse1.
inline constexpr c10::DispatchKeySet kDeviceKeys =
    c10::DispatchKeySet(c10::DispatchKey::PrivateUse1) |
    c10::DispatchKeySet(c10::BackendComponent::XPUBit);

// Of one device, for storages that are made there; of no index: the calling thread's current one.
[[nodiscard]] c10::Allocator& allocator_of(c10::Device device);

// The device that operators of this thread use when none is named.
[[nodiscard]] c10::DeviceIndex current_device();

}  // namespace kolo::testing::simulated
