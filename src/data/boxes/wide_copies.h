#pragma once

#include <cstdint>

// Copies by vectors of 16 numbers that are stored past the caches, for processors that have them:
// lines of the caches are read and written whole. Lengths are multiples of `lanes`, places that are
// written to multiples of 64 bytes.
namespace kolo::wide_copies {

inline constexpr std::int64_t lanes = 16;

#if defined(__x86_64__)

// Tells whether this processor has such vectors; nothing else here may be called where it hasn't.
[[nodiscard]] bool are_supported();

// A row whose numbers lie one after another, times a factor.
void copy_row(const float* in, std::int64_t size, float factor, bool is_backwards, float* out);

// out[column * out_stride + row] = factor * in[row * in_stride + column], of 16 rows and so many
// columns. Strides may be negative.
void transpose_rows(const float* in, std::int64_t in_stride, std::int64_t columns, float factor,
                    float* out, std::int64_t out_stride);

#else

[[nodiscard]] constexpr bool are_supported() {
  return false;
}
inline void copy_row(const float*, std::int64_t, float, bool, float*) {}
inline void transpose_rows(const float*, std::int64_t, std::int64_t, float, float*, std::int64_t) {}

#endif

}  // namespace kolo::wide_copies
