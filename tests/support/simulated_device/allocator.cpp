#include "support/simulated_device/internals.h"

#include <array>
#include <cstring>
#include <memory>

#include "support/simulated_device/device.h"

namespace kolo::testing::simulated {
namespace {

// Memory of one device, or (index -1) of the current one.
class DeviceAllocator final : public c10::Allocator {
 public:
  explicit DeviceAllocator(int index) : index_(index) {}

  // LibTorch's is const before 2.3; the other one is then an overload.
  c10::DataPtr allocate(std::size_t bytes) const { return make(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return make(bytes); }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &release; }
  // LibTorch asks for it from 2.3 on.
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(host_view(to), host_view(from), bytes);
  }

 private:
  [[nodiscard]] c10::DataPtr make(std::size_t bytes) const {
    const int index = index_ < 0 ? current_device() : index_;
    std::byte* const memory = simulated::allocate(bytes, index);
    if (memory != nullptr) std::memset(host_view(memory), 0xff, bytes);
    return {memory, memory, &release, device(index)};
  }

  int index_;
};

// Storages point to their allocator, so these are never destroyed.
DeviceAllocator& allocator_at(int index) {
  static_assert(kDevices == 2);
  static auto& all = *std::make_unique<std::array<DeviceAllocator, kDevices + 1>>(
                          std::array{DeviceAllocator(-1), DeviceAllocator(0), DeviceAllocator(1)})
                          .release();
  return all.at(static_cast<std::size_t>(index + 1));
}

REGISTER_ALLOCATOR(kDeviceType, &allocator_at(-1));

}  // namespace

c10::Allocator& allocator_of(c10::Device device) {
  return allocator_at(device.index());
}

}  // namespace kolo::testing::simulated
