#pragma once

#include <cstddef>
#include <cstdint>
// What makes samples, without LibTorch: loops on the host (sample_loops.cpp), and kernels on CUDA
// devices (cuda/sample_kernels.cu), which a build without CUDA lacks; sample_device.h calls them.
namespace kolo::samples {

// In front of an image's pixels: an ImageTransform.
struct PackedTransform {
  double shift_y, shift_x, zoom_y, zoom_x;
  std::int32_t flip, is_identity;
  std::int64_t unused;
};
static_assert(sizeof(PackedTransform) == 48);

// All in one memory.
struct ImageBatch {
  const std::byte* packed;  // of each sample a PackedTransform, then its pixels, channel first
  std::int64_t packed_bytes, samples;
  std::int32_t channels, height, width;
  float byte_divisor;      // pixels are bytes, each for its quotient by this; 0: they are floats
  const float* mean;       // of each channel of the result
  const float* deviation;  // likewise
  bool blue_first, is_filled;
  float fill;
  float* out;  // [samples, channels, height, width]
};
void make_images(const ImageBatch& batch);
// Enqueued in a stream of the current device.
void enqueue_images(const ImageBatch& batch, void* stream);

struct CropBatch {
  const float* box;         // [channels, box_size, box_size, box_size]
  const std::byte* packed;  // of each sample a boxes::PackedCrop
  std::int64_t samples, channels, box_size, crop;
  float* out;  // [samples, channels, crop, crop, crop]
};
void make_crops(const CropBatch& batch);
void enqueue_crops(const CropBatch& batch, void* stream);

}  // namespace kolo::samples
