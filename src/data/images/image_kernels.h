#pragma once

#include <cstddef>
#include <cstdint>

// Inner loops over pixels, compiled for each vector unit.
namespace kolo::images {

// Those of resizing. Pixels have four values: red, green, blue and one without meaning.

// sums[i] = the sum over k < taps of weights[k] rows[k][i], for `size` values; taps at least 1.
void mix_byte_rows(const std::uint8_t* const* rows, const float* weights, std::size_t taps,
                   float* sums, std::size_t size);

// The weighted sums of neighbours in a row: pixel x of the result is the sum over k < taps of
// weights[taps x + k] times pixel first[x] + k.
void mix_columns(const float* pixels, const std::int32_t* first, const float* weights,
                 std::size_t taps, float* red, float* green, float* blue, std::size_t width);

// Those of transform_image. Both interpolate as a + f (b - a), which is exactly a where
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
