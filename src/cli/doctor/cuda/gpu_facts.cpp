#include "cli/doctor/checks.h"

#include <ATen/Context.h>
#include <cuda_runtime.h>
#include <fmt/format.h>

#include "comm/cuda/check_cuda.h"
#include "kolo/comm/device.h"
#include "kolo/parallel/initialize.h"

namespace kolo {

[[nodiscard]] bool has_kernels_for_current_device();  // kernel_image.cu, which nvcc compiles

namespace {

// Text of cuDNN's version: 91002 is 9.10.2, and before version 9 8907 is 8.9.7.
std::string cudnn_version() {
  const auto& hooks = at::detail::getCUDAHooks();
  if (!hooks.hasCuDNN()) return {};
  const long version = hooks.versionCuDNN();
  const long major = version >= 10000 ? version / 10000 : version / 1000;
  const long rest = version >= 10000 ? version % 10000 : version % 1000;
  return fmt::format("cuDNN {}.{}.{}", major, rest / 100, rest % 100);
}

// Version by a function of CUDA; 0 if CUDA does not start.
int version_by(cudaError_t (*function)(int*)) {
  int version = 0;
  if (function(&version) != cudaSuccess) version = 0;
  (void)cudaGetLastError();
  return version;
}

GpuFacts::Device device_facts(const DeviceRuntime& runtime, int index) {
  use_device(index);
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  const auto memory = runtime.memory(index);
  return {.name = properties.name,
          .place = runtime.pci_bus_id(index),
          .capability = fmt::format("{}.{}", properties.major, properties.minor),
          .has_kernels = has_kernels_for_current_device(),
          .free_bytes = memory.free_bytes,
          .total_bytes = memory.total_bytes};
}

bool reaches(int from, int to) {
  int can = 0;
  check_cuda(cudaDeviceCanAccessPeer(&can, from, to), "cudaDeviceCanAccessPeer");
  return can != 0;
}

}  // namespace

std::optional<GpuFacts> gpu_facts() {
  const auto runtime = cuda_runtime();
  GpuFacts facts;
  facts.runtime = version_by(cudaRuntimeGetVersion);
  facts.driver = version_by(cudaDriverGetVersion);
  const auto& hooks = at::detail::getCUDAHooks();
  if (hooks.hasCUDART()) facts.libtorch = static_cast<int>(hooks.versionCUDART());
  facts.cudnn = cudnn_version();
  facts.nccl = nccl_version();
  const int devices = cuda_devices().devices;
  for (int index = 0; index < devices; ++index)
    facts.devices.push_back(device_facts(*runtime, index));
  for (int from = 0; from < devices; ++from) {
    for (int to = 0; to < devices; ++to)
      if (from != to && !reaches(from, to)) facts.out_of_reach.emplace_back(from, to);
  }
  return facts;
}

}  // namespace kolo
