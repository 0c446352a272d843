// Hooks that LibTorch calls for a device beside its operators, from 2.1 on.
#if __has_include(<ATen/detail/PrivateUse1HooksInterface.h>)

#include <memory>

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceType.h>

#include "support/gpu.h"
#include "support/simulated_device/device.h"
#include "support/simulated_device/internals.h"

namespace kolo::testing::simulated {
namespace {

// Some versions of LibTorch lack the functions without `override`.
struct Hooks final : at::PrivateUse1HooksInterface {
  [[nodiscard]] bool isBuilt() const { return true; }
  [[nodiscard]] bool isAvailable() const { return true; }
  [[nodiscard]] bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return index >= 0 && index < kDevices;
  }
  [[nodiscard]] c10::DeviceIndex deviceCount() const { return kDevices; }
  [[nodiscard]] c10::DeviceIndex getCurrentDevice() const { return current_device(); }
  [[nodiscard]] c10::Device getDeviceFromPtr(void* data) const override {
    return device(device_of(data));
  }
  [[nodiscard]] const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index);
  }
  [[nodiscard]] at::Generator getNewGenerator(c10::DeviceIndex index) const {
    return new_generator(index);
  }
  [[nodiscard]] c10::Allocator* getPinnedMemoryAllocator() const override {
    return c10::GetAllocator(c10::DeviceType::CPU);
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    resize_storage(storage, bytes);
  }
};

// Registered for as long as the program lives. A device type of its own name is what autograd then
// takes for the accelerator, whose streams it uses; without, a LibTorch with CUDA would use those
// of CUDA, which fails where there is no GPU. Where tests are to run on a GPU, that is the
// accelerator.
[[maybe_unused]] const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(std::make_unique<Hooks>().release());
  if (!is_gpu_wanted()) c10::register_privateuse1_backend("simulated");
  return true;
}();

}  // namespace
}  // namespace kolo::testing::simulated

#endif
