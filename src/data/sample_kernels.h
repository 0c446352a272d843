#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "data/images/image_kernels.h"
#include "kolo/base/host_device.h"

namespace c10 {
struct Device;
}

// Samples made in batches, by loops on the host (device_samples.cpp) and by kernels on CUDA devices
// (cuda/sample_kernels.cu), which give the same bits. A build without CUDA has no kernels
// (cuda/sample_device_left_out.cpp).
namespace kolo::samples {

// Header of a packed image: its ImageTransform as plain numbers; the pixels follow.
struct PackedTransform {
  double shift_y, shift_x, zoom_y, zoom_x;
  std::int32_t flip, is_identity;
  std::int64_t unused;
};
static_assert(sizeof(PackedTransform) == 48);

// Images in one memory.
struct ImageBatch {
  const std::byte* packed;  // of each sample a PackedTransform, then its pixels, channel first
  std::int64_t packed_bytes, samples;
  std::int32_t channels, height, width;
  float byte_divisor;      // pixels are bytes, each for its quotient by this; 0: they are floats
  const float* mean;       // of each channel of the result
  const float* deviation;  // likewise
  bool blue_first;
  float* out;  // [samples, channels, height, width]
};
// Enqueued in a stream of the current device.
void enqueue_images(const ImageBatch& batch, void* stream);

struct CropBatch {
  const float* box;         // [channels, box_size, box_size, box_size]
  const std::byte* packed;  // of each sample a PackedCrop
  std::int64_t samples, channels, box_size, crop;
  float* out;  // [samples, channels, crop, crop, crop]
};
void enqueue_crops(const CropBatch& batch, void* stream);

// Tells whether the device has kernels, as the two below need.
[[nodiscard]] bool has_kernels(const c10::Device& device);
// Bytes that can be allocated; none if unknown.
[[nodiscard]] std::optional<std::int64_t> free_memory(const c10::Device& device);

// In the thread's current stream. The batch lies in the device's memory.
void make_images_on(const c10::Device& device, const ImageBatch& batch);
void make_crops_on(const c10::Device& device, const CropBatch& batch);

// A crop as a device reads it: plain numbers.
struct PackedCrop {
  std::int32_t start[3];
  std::int32_t axis[3], sign[3];  // CubeSymmetry
  std::int32_t turns_velocity;    // 1: channels 1 to 3 are turned as a vector (CropTurn)
  std::int32_t unused[2];
};
static_assert(sizeof(PackedCrop) == 48);

// One channel of a packed image.
template <typename Pixel>
struct Plane {
  const Pixel* pixels;
  std::int32_t width;
  float divisor;

  KOLO_HOST_DEVICE float operator()(std::int32_t y, std::int32_t x) const {
    const auto value = static_cast<float>(pixels[y * width + x]);
    return sizeof(Pixel) == 1 ? value / divisor : value;
  }
};

// Number `index` of the image made of `sample`.
template <typename Pixel>
KOLO_HOST_DEVICE inline float pixel_of(const ImageBatch& batch, const std::byte* sample,
                                       std::int32_t index) {
  const auto& transform = *reinterpret_cast<const PackedTransform*>(sample);
  const std::int32_t plane = batch.height * batch.width;
  const std::int32_t channel = index / plane, place = index % plane;
  const std::int32_t y = place / batch.width, x = place % batch.width;
  const std::int32_t source = batch.blue_first ? batch.channels - 1 - channel : channel;
  const Plane<Pixel> load{
      reinterpret_cast<const Pixel*>(sample + sizeof(PackedTransform)) + source * plane,
      batch.width, batch.byte_divisor};
  float value = 0;
  if (transform.is_identity != 0) {
    value = load(y, x);
  } else {
    const auto row =
        images::axis_source(y, batch.height, transform.zoom_y, transform.shift_y, false);
    const auto column = images::axis_source(x, batch.width, transform.zoom_x, transform.shift_x,
                                            transform.flip != 0);
    value = images::moved_pixel(load, row, column);
  }
  return images::preprocessed(value, batch.mean[channel], batch.deviation[channel]);
}

// Value of the turned crop at `cell` of `channel`, read from where it lies in the box.
KOLO_HOST_DEVICE inline float crop_value(const CropBatch& batch, const PackedCrop& crop,
                                         std::int64_t channel, const std::int64_t (&cell)[3]) {
  std::int64_t place = channel;
  float factor = 1;
  for (int j = 0; j < 3; ++j) {
    if (crop.turns_velocity == 0 || channel != 1 + crop.axis[j]) continue;
    place = 1 + j;
    factor = static_cast<float>(crop.sign[j]);
  }
  for (int j = 0; j < 3; ++j) {
    const std::int64_t at = cell[crop.axis[j]];
    place = place * batch.box_size + crop.start[j] + (crop.sign[j] > 0 ? at : batch.crop - 1 - at);
  }
  return factor * batch.box[place];
}

}  // namespace kolo::samples
