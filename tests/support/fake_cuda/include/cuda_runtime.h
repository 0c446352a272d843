#pragma once

// In the place of CUDA's header: kernels are functions of the host, which a launch enqueues.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <tuple>
#include <utility>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local
#define __launch_bounds__(...)

extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;
void __syncthreads();

namespace fake_cuda {

cudaError_t launch(dim3 grid, dim3 block, cudaStream_t stream, std::function<void()> body);

}  // namespace fake_cuda

template <typename... Parameters>
cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments,
                             std::size_t /*shared_bytes*/, cudaStream_t stream) {
  return [&]<std::size_t... index>(std::index_sequence<index...>) {
    std::tuple<Parameters...> values(*static_cast<Parameters*>(arguments[index])...);
    return fake_cuda::launch(grid, block, stream, [kernel, values] { std::apply(kernel, values); });
  }
  (std::index_sequence_for<Parameters...>());
}

template <typename Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Kernel* kernel) {
  return cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(kernel));
}
