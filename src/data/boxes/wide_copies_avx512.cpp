#include <cstddef>

#include "base/transpose_avx512.h"
#include "data/boxes/wide_copies.h"

#define KOLO_AVX512 __attribute__((target("avx512f")))

namespace kolo::wide_copies {

bool are_supported() {
  return __builtin_cpu_supports("avx512f");
}

KOLO_AVX512 void copy_row(const float* in, std::int64_t size, float factor, bool is_backwards,
                          float* out) {
  const __m512 factors = _mm512_set1_ps(factor);
  const __m512i last_first = _mm512_set_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (std::int64_t k = 0; k < size; k += lanes) {
    const auto from = is_backwards ? size - lanes - k : k;
    __m512 values = _mm512_mul_ps(factors, _mm512_loadu_ps(in + from));
    if (is_backwards) values = _mm512_permutexvar_ps(last_first, values);
    _mm512_stream_ps(out + k, values);
  }
}

KOLO_AVX512 void transpose_rows(const float* in, std::int64_t in_stride, std::int64_t columns,
                                float factor, float* out, std::int64_t out_stride) {
  const __m512 factors = _mm512_set1_ps(factor);
  for (std::int64_t column = 0; column < columns; column += lanes) {
    __m512i block[lanes];
    for (std::int64_t row = 0; row < lanes; ++row) {
      block[row] = _mm512_castps_si512(
          _mm512_mul_ps(factors, _mm512_loadu_ps(in + row * in_stride + column)));
    }
    transpose_16x16(block);
    for (std::int64_t i = 0; i < lanes; ++i)
      _mm512_stream_ps(out + (column + i) * out_stride, _mm512_castsi512_ps(block[i]));
  }
}

}  // namespace kolo::wide_copies
