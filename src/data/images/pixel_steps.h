#pragma once

#include <cstdint>

#include "kolo/base/host_device.h"
#include "kolo/base/vectorize.h"

// What moving and preprocessing an image does with one pixel, written once for the loops on
// processors (image_kernels.cpp, image_transform.cpp) and on CUDA devices (cuda/sample_kernels.cu),
// which give the same bits: neither fuses a multiplication with an addition.
namespace kolo::images {

#define KOLO_PIXEL_STEP KOLO_HOST_DEVICE KOLO_INLINE inline

// Exactly a where fraction = 0 and where a = b.
KOLO_PIXEL_STEP float between(float a, float b, float fraction) {
  return a + fraction * (b - a);
}

KOLO_PIXEL_STEP float preprocessed(float value, float mean, float deviation) {
  return (value - mean) / deviation;
}

// Where a place of the result comes from, along one axis: between the source's places first and
// second.
struct AxisPlace {
  std::int32_t first, second;
  float fraction;
  bool is_inside;  // of the source
};

KOLO_PIXEL_STEP AxisPlace axis_place(std::int32_t place, std::int32_t size, double zoom,
                                     double shift, bool flip) {
  const double last = static_cast<double>(size) - 1;
  const double middle = last / 2;
  const double from = flip ? last - place : static_cast<double>(place);
  const double source = zoom * (from - middle) + middle + shift;
  const double clamped = source < 0 ? 0 : source > last ? last : source;
  const auto first = static_cast<std::int32_t>(clamped);
  return {first, first + 1 < size ? first + 1 : size - 1, static_cast<float>(clamped - first),
          source >= 0 && source <= last};
}

// The value of a moved image's pixel before preprocessing. `load(y, x)` is the source's; `fill` is
// what lies beyond its edges, unless that is the nearest pixel.
template <typename Load>
KOLO_PIXEL_STEP float moved_pixel(const Load& load, const AxisPlace& row, const AxisPlace& column,
                                  bool is_filled, float fill) {
  if (is_filled && !(row.is_inside && column.is_inside)) return fill;
  const float upper =
      between(load(row.first, column.first), load(row.first, column.second), column.fraction);
  const float lower =
      between(load(row.second, column.first), load(row.second, column.second), column.fraction);
  return between(upper, lower, row.fraction);
}

}  // namespace kolo::images
