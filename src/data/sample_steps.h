#pragma once

#include <cstddef>
#include <cstdint>

#include "data/boxes/crop_steps.h"
#include "data/images/pixel_steps.h"
#include "data/sample_kernels.h"
#include "kolo/base/host_device.h"

// One number of a batch that is made of packed samples, for loops and kernels.
namespace kolo::samples {

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
        images::axis_place(y, batch.height, transform.zoom_y, transform.shift_y, false);
    const auto column = images::axis_place(x, batch.width, transform.zoom_x, transform.shift_x,
                                           transform.flip != 0);
    value = images::moved_pixel(load, row, column, batch.is_filled, batch.fill);
  }
  return images::preprocessed(value, batch.mean[channel], batch.deviation[channel]);
}

// Of the result's `cell` in `channel`.
KOLO_HOST_DEVICE inline float crop_value(const CropBatch& batch, const boxes::PackedCrop& crop,
                                         std::int64_t channel, const std::int64_t (&cell)[3]) {
  const auto from = boxes::crop_element(crop, batch.crop, channel, cell);
  std::int64_t place = from.channel;
  for (int axis = 0; axis < 3; ++axis)
    place = place * batch.box_size + crop.start[axis] + from.cell[axis];
  return from.factor * batch.box[place];
}

}  // namespace kolo::samples
