#include "kolo/parallel/device_memory.h"

#include <c10/cuda/CUDACachingAllocator.h>

namespace kolo {

std::optional<DeviceMemoryUse> memory_use(const torch::Device& device) {
  if (!device.is_cuda()) return std::nullopt;
  const auto runtime = cuda_runtime();
  const int index = device.has_index() ? device.index() : runtime->current_device();
  const auto statistics =
      c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<torch::DeviceIndex>(index));
  return DeviceMemoryUse{statistics.allocated_bytes[0].peak, statistics.reserved_bytes[0].peak,
                         runtime->memory(index)};
}

}  // namespace kolo
