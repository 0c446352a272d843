#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>

#include <cuda_runtime.h>

#include "kolo/base/error.h"

// For sources of CUDA: how kernels over flat memory are launched.
namespace kolo::cuda {

constexpr unsigned block_threads = 256;

// For as many threads as there are units of work, but not more blocks than keep every device busy
// for a while: a thread takes several units where there are many.
constexpr unsigned blocks_for(std::size_t units, std::size_t units_per_block = block_threads) {
  constexpr std::size_t most = 16384;
  const std::size_t blocks = units / units_per_block + (units % units_per_block != 0 ? 1 : 0);
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

// Enqueues kernel(arguments...) on `stream`. Throws Error that names the room and the kernel if the
// launch is refused; failures while it runs are found by waiting for the stream.
template <typename... Parameters, typename... Arguments>
void launch(std::string_view room, std::string_view name, void (*kernel)(Parameters...), dim3 grid,
            dim3 block, void* stream, const Arguments&... arguments) {
  std::tuple<Parameters...> values(arguments...);
  const cudaError_t status = std::apply(
      [&](auto&... value) {
        void* pointers[] = {&value...};
        return cudaLaunchKernel(kernel, grid, block, pointers, 0,
                                static_cast<cudaStream_t>(stream));
      },
      values);
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // so that the next call does not get it
  throw Error(std::string(room) + ": the CUDA kernel " + std::string(name) +
              " can't be started: " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) +
              "); expected a device that CMAKE_CUDA_ARCHITECTURES of this build covers, as the "
              "current one, and a stream of it; `nvidia-smi` lists the devices");
}

}  // namespace kolo::cuda
