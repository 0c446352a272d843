#pragma once

#include <cuda_runtime_api.h>

#include "kolo/base/error.h"

namespace kolo {

// Error for anything but success: what was tried, and CUDA's own words. `what`: "cudaMalloc of 12
// bytes", for example.
void check_cuda(cudaError_t status, const char* what);

// Makes `device` the calling thread's device, for good: putting back the one before would make a
// context (0.5 GB) on a device that this rank never uses, because a new thread begins with device
// 0.
void use_device(int device);

}  // namespace kolo
