#pragma once

#include <ATen/Context.h>

#include "kolo/comm/threads.h"
#include "support/gpu.h"
#include "support/simulated_device/device.h"
#include "support/simulated_device/runtime.h"

// Devices of tests: simulated ones, or the first GPU (is_gpu_wanted()).
namespace kolo::testing {

// Simulated ranks have one each: autograd has one thread per device, in which ranks that are
// threads and meet in backward would wait for each other.
[[nodiscard]] inline torch::Device test_device(int rank) {
  return is_gpu_wanted() ? torch::Device(torch::kCUDA, 0) : simulated::device(rank);
}

// `staging_bytes`: small ones make small buffers take many pieces.
[[nodiscard]] inline DeviceOptions test_device_options(std::size_t staging_bytes = 1 << 16) {
  return {.staging_bytes = staging_bytes, .runtime = simulated::runtime_of_tests()};
}

// Makes a GPU multiply float32 in float32, as a host does, from now on.
inline void refuse_tf32() {
  at::globalContext().setAllowTF32CuDNN(false);
  at::globalContext().setAllowTF32CuBLAS(false);
}

}  // namespace kolo::testing
