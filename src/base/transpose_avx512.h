#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>

#include <immintrin.h>

namespace kolo {

// Rows of 16 x 16 values of 32 bits become columns: by twos, by fours, and then by whole quarters.
__attribute__((target("avx512f"), always_inline)) inline void transpose_16x16(__m512i (&rows)[16]) {
  __m512i next[16];
  for (std::size_t i = 0; i < 16; i += 2) {
    next[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    next[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
  for (std::size_t i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(next[i], next[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(next[i], next[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(next[i + 1], next[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(next[i + 1], next[i + 3]);
  }
  // Now rows[4 q + c] has, in its quarter p, column 4 p + c of the rows 4 q to 4 q + 3.
  for (std::size_t c = 0; c < 4; ++c) {
    const auto low01 = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0x88);  // quarters 0 and 2
    const auto low23 = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0x88);
    const auto high01 = _mm512_shuffle_i32x4(rows[c], rows[4 + c], 0xDD);  // quarters 1 and 3
    const auto high23 = _mm512_shuffle_i32x4(rows[8 + c], rows[12 + c], 0xDD);
    next[c] = _mm512_shuffle_i32x4(low01, low23, 0x88);
    next[8 + c] = _mm512_shuffle_i32x4(low01, low23, 0xDD);
    next[4 + c] = _mm512_shuffle_i32x4(high01, high23, 0x88);
    next[12 + c] = _mm512_shuffle_i32x4(high01, high23, 0xDD);
  }
  std::copy(std::begin(next), std::end(next), std::begin(rows));
}

}  // namespace kolo
