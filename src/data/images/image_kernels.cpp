#include "data/images/image_kernels.h"

#include <algorithm>
#include <cstring>

namespace kolo::images {

namespace {

using Pixel [[gnu::vector_size(16)]] = float;

inline Pixel load_pixel(const float* place) {
  Pixel pixel;
  std::memcpy(&pixel, place, sizeof(pixel));
  return pixel;
}

inline float value_of(std::uint8_t byte) {
  return static_cast<float>(byte);
}

// Several rows at a time: sums are loaded and stored less often.
inline void first_rows(const std::uint8_t* const* rows, const float* weights, std::size_t taps,
                       float* __restrict sums, std::size_t size) {
  const auto row = [&](std::size_t k) { return rows[k < taps ? k : 0]; };
  const auto weight = [&](std::size_t k) { return k < taps ? weights[k] : 0; };
  const std::uint8_t *a = row(0), *b = row(1), *c = row(2), *d = row(3);
  const float u = weight(0), v = weight(1), w = weight(2), x = weight(3);
  for (std::size_t i = 0; i < size; ++i) {
    sums[i] = u * value_of(a[i]) + v * value_of(b[i]) + w * value_of(c[i]) + x * value_of(d[i]);
  }
}

inline void add_two_rows(const std::uint8_t* const* rows, const float* weights,
                         float* __restrict sums, std::size_t size) {
  const std::uint8_t *a = rows[0], *b = rows[1];
  const float u = weights[0], v = weights[1];
  for (std::size_t i = 0; i < size; ++i) sums[i] += u * value_of(a[i]) + v * value_of(b[i]);
}

inline void add_row(const std::uint8_t* row, float weight, float* __restrict sums,
                    std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) sums[i] += weight * value_of(row[i]);
}

}  // namespace

KOLO_VECTORIZE
void mix_byte_rows(const std::uint8_t* const* rows, const float* weights, std::size_t taps,
                   float* __restrict sums, std::size_t size) {
  first_rows(rows, weights, std::min<std::size_t>(taps, 4), sums, size);
  for (std::size_t k = 4; k < taps; k += 2) {
    if (k + 1 < taps) {
      add_two_rows(rows + k, weights + k, sums, size);
    } else {
      add_row(rows[k], weights[k], sums, size);
    }
  }
}

KOLO_VECTORIZE
void mix_columns(const float* pixels, const std::int32_t* first, const float* weights,
                 std::size_t taps, float* __restrict red, float* __restrict green,
                 float* __restrict blue, std::size_t width) {
  for (std::size_t x = 0; x < width; ++x, weights += taps) {
    const float* source = pixels + 4 * static_cast<std::size_t>(first[x]);
    Pixel sum{};
    for (std::size_t k = 0; k < taps; ++k) sum += weights[k] * load_pixel(source + 4 * k);
    red[x] = sum[0];
    green[x] = sum[1];
    blue[x] = sum[2];
  }
}

KOLO_VECTORIZE
void interpolate_row(const float* source, const std::int32_t* first, const std::int32_t* second,
                     const float* fractions, float* __restrict result, std::size_t size) {
  for (std::size_t x = 0; x < size; ++x) {
    result[x] = between(source[first[x]], source[second[x]], fractions[x]);
  }
}

KOLO_VECTORIZE
void mix_rows(const float* a, const float* b, float fraction, float mean, float deviation,
              float* __restrict result, std::size_t size) {
  for (std::size_t x = 0; x < size; ++x) {
    result[x] = preprocessed(between(a[x], b[x], fraction), mean, deviation);
  }
}

KOLO_VECTORIZE
void normalise(float* values, float mean, float deviation, std::size_t size) {
  for (std::size_t x = 0; x < size; ++x) values[x] = preprocessed(values[x], mean, deviation);
}

}  // namespace kolo::images
