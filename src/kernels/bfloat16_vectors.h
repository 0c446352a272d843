#pragma once

#include <cstdint>

#include <immintrin.h>

#include "base/half.h"

// Vectors of bfloat16, for sources compiled for processors that multiply them.
namespace kolo {

#define KOLO_AVX512_BF16_INLINE \
  __attribute__((target("avx512f,avx512bw,avx512bf16"), always_inline)) inline

// 16 values of each, side by side: pairs.
KOLO_AVX512_BF16_INLINE __m512i interleaved(__m512i first_then_second) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, first_then_second);
}

KOLO_AVX512_BF16_INLINE __m512i rounded(__m512 low, __m512 high) {
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

// 16 values of each of two rows; without a second one, zeros.
KOLO_AVX512_BF16_INLINE __m512i joined(const BFloat16* first, const BFloat16* second) {
  const auto low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first));
  const auto high = second == nullptr
                        ? _mm256_setzero_si256()
                        : _mm256_loadu_si256(reinterpret_cast<const __m256i*>(second));
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

}  // namespace kolo
