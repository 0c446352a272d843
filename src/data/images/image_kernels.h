#pragma once

#include <cstddef>
#include <cstdint>

#include "kolo/base/host_device.h"
#include "kolo/base/vectorize.h"

namespace kolo::images {

// Steps of moving and preprocessing one pixel, for the loops below and for CUDA devices
// (cuda/sample_kernels.cu), which give the same bits: neither fuses a multiplication with an
// addition.
#define KOLO_PIXEL_STEP KOLO_HOST_DEVICE KOLO_INLINE inline

// Exactly a where fraction = 0 and where a = b.
KOLO_PIXEL_STEP float between(float a, float b, float fraction) {
  return a + fraction * (b - a);
}

KOLO_PIXEL_STEP float preprocessed(float value, float mean, float deviation) {
  return (value - mean) / deviation;
}

// Source of a place of the result, along one axis: between the source's places first and second.
struct AxisSource {
  std::int32_t first, second;
  float fraction;
};

KOLO_PIXEL_STEP AxisSource axis_source(std::int32_t place, std::int32_t size, double zoom,
                                       double shift, bool flip) {
  const double last = static_cast<double>(size) - 1;
  const double middle = last / 2;
  const double from = flip ? last - place : static_cast<double>(place);
  const double source = zoom * (from - middle) + middle + shift;
  const double clamped = source < 0 ? 0 : source > last ? last : source;
  const auto first = static_cast<std::int32_t>(clamped);
  return {first, first + 1 < size ? first + 1 : size - 1, static_cast<float>(clamped - first)};
}

// Value of a moved image's pixel before preprocessing. `load(y, x)` is the source's.
template <typename Load>
KOLO_PIXEL_STEP float moved_pixel(const Load& load, const AxisSource& row,
                                  const AxisSource& column) {
  const float upper =
      between(load(row.first, column.first), load(row.first, column.second), column.fraction);
  const float lower =
      between(load(row.second, column.first), load(row.second, column.second), column.fraction);
  return between(upper, lower, row.fraction);
}

// Loops of resizing, compiled for each vector unit. Pixels have four values: red, green, blue and
// one without meaning.

// sums[i] = the sum over k < taps of weights[k] rows[k][i], for `size` values; taps at least 1.
void mix_byte_rows(const std::uint8_t* const* rows, const float* weights, std::size_t taps,
                   float* sums, std::size_t size);

// The weighted sums of neighbours in a row: pixel x of the result is the sum over k < taps of
// weights[taps x + k] times pixel first[x] + k.
void mix_columns(const float* pixels, const std::int32_t* first, const float* weights,
                 std::size_t taps, float* red, float* green, float* blue, std::size_t width);

// Loops of transform_image. Both interpolate as a + f (b - a), which is exactly a where
// f = 0 and where a = b.

// result[x] = the source between first[x] and second[x], fractions[x] of the way.
void interpolate_row(const float* source, const std::int32_t* first, const std::int32_t* second,
                     const float* fractions, float* result, std::size_t size);

// result[x] = (a[x] + fraction (b[x] - a[x]) - mean) / deviation. `result` is neither a nor b.
void mix_rows(const float* a, const float* b, float fraction, float mean, float deviation,
              float* result, std::size_t size);

// values[x] = (values[x] - mean) / deviation.
void normalise(float* values, float mean, float deviation, std::size_t size);

}  // namespace kolo::images
