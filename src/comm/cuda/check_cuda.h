#pragma once

#include <cuda_runtime_api.h>

#include "kolo/base/error.h"

namespace kolo {

// Error for anything but success: what was tried, and CUDA's own words. `what`: "cudaMalloc of 12
// bytes", for example.
void check_cuda(cudaError_t status, const char* what);

// Makes a device this thread's for as long as it lives.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  ~DeviceScope();

 private:
  int before_ = 0;
  bool is_other_ = false;
};

}  // namespace kolo
