#pragma once

#include <cstdint>

#include "kolo/comm/device.h"

namespace kolo {

// Memory of a device that this process has had since it began.
struct DeviceMemoryUse {
  std::int64_t peak_allocated_bytes = 0;  // by tensors
  std::int64_t peak_reserved_bytes = 0;   // that LibTorch's allocator has taken for them
  DeviceMemory device;                    // what is free now, whoever has the rest
};

}  // namespace kolo
