#include "data/images/resize_kernels.h"

#include <cstring>

#include "kolo/base/vectorize.h"

namespace kolo::images {

namespace {

using Pixel [[gnu::vector_size(16)]] = float;

inline Pixel load_pixel(const float* place) {
  Pixel pixel;
  std::memcpy(&pixel, place, sizeof(pixel));
  return pixel;
}

}  // namespace

KOLO_VECTORIZE
void weigh_row(const std::uint8_t* row, float weight, float* __restrict sums, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) sums[i] = weight * static_cast<float>(row[i]);
}

KOLO_VECTORIZE
void add_row(const std::uint8_t* row, float weight, float* __restrict sums, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) sums[i] += weight * static_cast<float>(row[i]);
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

}  // namespace kolo::images
