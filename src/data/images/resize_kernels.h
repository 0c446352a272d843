#pragma once

#include <cstddef>
#include <cstdint>

// The inner loops of resize_rows. Pixels have four values: red, green, blue and one without
// meaning.
namespace kolo::images {

// sums[i] = the sum over k < taps of weights[k] rows[k][i], for `size` values; taps at least 1.
void mix_byte_rows(const std::uint8_t* const* rows, const float* weights, std::size_t taps,
                   float* sums, std::size_t size);

// The weighted sums of neighbours in a row: pixel x of the result is the sum over k < taps of
// weights[taps x + k] times pixel first[x] + k.
void mix_columns(const float* pixels, const std::int32_t* first, const float* weights,
                 std::size_t taps, float* red, float* green, float* blue, std::size_t width);

}  // namespace kolo::images
