#include "data/sample_kernels.h"

#include "kolo/base/error.h"

// In place of sample_device.cpp and sample_kernels.cu, where kolo is built without CUDA.
namespace kolo::samples {

namespace {

[[noreturn]] void fail() {
  throw Error(
      "data: samples were to be made on a device, but kolo was built without CUDA; build it with "
      "-D KOLO_CUDA=ON, nvcc and a LibTorch with CUDA");
}

}  // namespace

bool has_kernels(const c10::Device& /*device*/) {
  return false;
}

std::optional<std::int64_t> free_memory(const c10::Device& /*device*/) {
  return std::nullopt;
}

void make_images_on(const c10::Device& /*device*/, const ImageBatch& /*batch*/) {
  fail();
}

void make_crops_on(const c10::Device& /*device*/, const CropBatch& /*batch*/) {
  fail();
}

}  // namespace kolo::samples
