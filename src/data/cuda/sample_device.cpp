#include "data/sample_kernels.h"

#include <string>

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>

#include "kolo/base/error.h"

namespace kolo::samples {

namespace {

cudaStream_t current_stream(const c10::Device& device) {
  return c10::cuda::getCurrentCUDAStream(device.index()).stream();
}

}  // namespace

bool has_kernels(const c10::Device& device) {
  return device.is_cuda();
}

std::optional<std::int64_t> free_memory(const c10::Device& device) {
  if (!device.is_cuda()) return std::nullopt;
  const c10::cuda::CUDAGuard guard(device);
  std::size_t free = 0, whole = 0;
  if (const auto status = cudaMemGetInfo(&free, &whole); status != cudaSuccess) {
    throw Error("data: can't ask " + device.str() +
                " for its free memory: " + cudaGetErrorString(status));
  }
  return static_cast<std::int64_t>(free);
}

void make_images_on(const c10::Device& device, const ImageBatch& batch) {
  const c10::cuda::CUDAGuard guard(device);
  enqueue_images(batch, current_stream(device));
}

void make_crops_on(const c10::Device& device, const CropBatch& batch) {
  const c10::cuda::CUDAGuard guard(device);
  enqueue_crops(batch, current_stream(device));
}

}  // namespace kolo::samples
