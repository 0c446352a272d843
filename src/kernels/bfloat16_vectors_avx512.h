#pragma once

#include <immintrin.h>

#include "base/half.h"
#include "kernels/bfloat16_products.h"

// Vectors of bfloat16, for sources compiled for processors that multiply them.

#define KOLO_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512bf16")))
#define KOLO_AVX512_BF16_INLINE \
  __attribute__((target("avx512f,avx512bw,avx512bf16"), always_inline)) inline

namespace kolo::bfloat16_products {

// 16 values of each, side by side: pairs.
KOLO_AVX512_BF16_INLINE __m512i interleaved(__m512i first_then_second) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, first_then_second);
}

KOLO_AVX512_BF16_INLINE __m512i rounded(__m512 low, __m512 high) {
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

KOLO_AVX512_BF16_INLINE void put(Pair* to, __m512i values) {
  _mm512_storeu_si512(to, values);
}

}  // namespace kolo::bfloat16_products
