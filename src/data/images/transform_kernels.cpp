#include "data/images/transform_kernels.h"

#include "kolo/base/vectorize.h"

namespace kolo::images {

KOLO_VECTORIZE
void interpolate_row(const float* source, const std::int32_t* first, const std::int32_t* second,
                     const float* fractions, float* __restrict result, std::size_t size) {
  for (std::size_t x = 0; x < size; ++x) {
    const float a = source[first[x]], b = source[second[x]];
    result[x] = a + fractions[x] * (b - a);
  }
}

KOLO_VECTORIZE
void mix_rows(const float* a, const float* b, float fraction, float mean, float deviation,
              float* __restrict result, std::size_t size) {
  for (std::size_t x = 0; x < size; ++x) {
    result[x] = (a[x] + fraction * (b[x] - a[x]) - mean) / deviation;
  }
}

KOLO_VECTORIZE
void normalise(float* values, float mean, float deviation, std::size_t size) {
  for (std::size_t x = 0; x < size; ++x) values[x] = (values[x] - mean) / deviation;
}

}  // namespace kolo::images
