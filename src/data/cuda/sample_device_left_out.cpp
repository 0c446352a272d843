#include "data/sample_kernels.h"

// In place of sample_device.cpp and sample_kernels.cu, where kolo is built without CUDA.
namespace kolo::samples {

bool has_kernels(const c10::Device& /*device*/) {
  return false;
}

std::optional<std::int64_t> free_memory(const c10::Device& /*device*/) {
  return std::nullopt;
}

// Never called without kernels.
void make_images_on(const c10::Device& /*device*/, const ImageBatch& /*batch*/) {}
void make_crops_on(const c10::Device& /*device*/, const CropBatch& /*batch*/) {}

}  // namespace kolo::samples
