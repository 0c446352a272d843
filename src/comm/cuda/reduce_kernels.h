#pragma once

#include <cuda_runtime_api.h>

#include "kolo/comm/device.h"

namespace kolo {

// DeviceRuntime::reduce(), on the current device.
void reduce_on_cuda(const DeviceReduction& reduction, cudaStream_t stream);

}  // namespace kolo
