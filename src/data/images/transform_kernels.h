#pragma once

#include <cstddef>
#include <cstdint>

// The inner loops of transform_image. Both interpolate as a + f (b - a), which is exactly a where
// f = 0 and where a = b.
namespace kolo::images {

// result[x] = the source between first[x] and second[x], fractions[x] of the way.
void interpolate_row(const float* source, const std::int32_t* first, const std::int32_t* second,
                     const float* fractions, float* result, std::size_t size);

// result[x] = (a[x] + fraction (b[x] - a[x]) - mean) / deviation. `result` is neither a nor b.
void mix_rows(const float* a, const float* b, float fraction, float mean, float deviation,
              float* result, std::size_t size);

// values[x] = (values[x] - mean) / deviation.
void normalise(float* values, float mean, float deviation, std::size_t size);

}  // namespace kolo::images
