#include <cuda_runtime.h>

#include "kolo/base/error.h"
#include "kolo/parallel/initialize.h"

namespace kolo {

std::string device_name(const torch::Device& device) {
  if (!device.is_cuda()) return {};
  const int index = device.has_index() ? device.index() : cuda_runtime()->current_device();
  cudaDeviceProp properties{};
  if (const auto status = cudaGetDeviceProperties(&properties, index); status != cudaSuccess) {
    throw Error(std::string("parallel: cudaGetDeviceProperties failed: ") +
                cudaGetErrorString(status));
  }
  return properties.name;
}

}  // namespace kolo
