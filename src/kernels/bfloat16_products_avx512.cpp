#include "kernels/products.h"

#include <algorithm>
#include <array>

#include <immintrin.h>

#include "base/half.h"
#include "base/transpose_avx512.h"
#include "kernels/bfloat16_vectors.h"

#define KOLO_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512bf16")))

namespace kolo::bfloat16_products {

KOLO_AVX512_BF16_INLINE void put(Pair* to, __m512i values) {
  _mm512_storeu_si512(to, values);
}

namespace {

// Sums stay in registers: of 6 rows by 4 vectors of columns.
constexpr int most_rows = 6, most_vectors = 4;

template <int Rows, int Vectors>
KOLO_AVX512_BF16 void tile(std::int64_t columns, std::int64_t pairs, const Left& a, const Pair* b,
                           float* const* c, std::int64_t first, ProductResult result) {
  __m512 sums[Rows][Vectors];
  for (int row = 0; row < Rows; ++row) {
    for (int v = 0; v < Vectors; ++v) {
      sums[row][v] = result == ProductResult::is_added ? _mm512_loadu_ps(c[row] + first + v * lanes)
                                                       : _mm512_setzero_ps();
    }
  }
  for (std::int64_t pair = 0; pair < pairs; ++pair, b += columns) {
    __m512i values[Vectors];
    for (int v = 0; v < Vectors; ++v) values[v] = _mm512_loadu_si512(b + first + v * lanes);
    for (int row = 0; row < Rows; ++row) {
      const __m512i factors =
          _mm512_set1_epi32(__builtin_bit_cast(std::int32_t, a.rows[row][pair * a.stride]));
      for (int v = 0; v < Vectors; ++v)
        sums[row][v] = _mm512_dpbf16_ps(sums[row][v], (__m512bh)factors, (__m512bh)values[v]);
    }
  }
  for (int row = 0; row < Rows; ++row) {
    for (int v = 0; v < Vectors; ++v) {
      float* const to = c[row] + first + v * lanes;
      if (result == ProductResult::is_streamed) {
        _mm512_stream_ps(to, sums[row][v]);
      } else {
        _mm512_storeu_ps(to, sums[row][v]);
      }
    }
  }
}

using Tile = void (*)(std::int64_t, std::int64_t, const Left&, const Pair*, float* const*,
                      std::int64_t, ProductResult);

template <int Vectors>
constexpr std::array<Tile, most_rows> tiles_of = {tile<1, Vectors>, tile<2, Vectors>,
                                                  tile<3, Vectors>, tile<4, Vectors>,
                                                  tile<5, Vectors>, tile<6, Vectors>};

constexpr std::array<std::array<Tile, most_rows>, most_vectors> tiles = {tiles_of<1>, tiles_of<2>,
                                                                         tiles_of<3>, tiles_of<4>};

}  // namespace

bool are_supported() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512bf16");
}

KOLO_AVX512_BF16 void pack(const float* rows, std::int64_t stride, std::int64_t inner,
                           std::int64_t columns, Pair* packed, std::int64_t packed_stride) {
  for (std::int64_t row = 0; row < inner; row += 2, rows += 2 * stride, packed += packed_stride) {
    const bool is_last = row + 1 == inner;
    for (std::int64_t i = 0; i < columns; i += lanes) {
      const auto first = _mm512_loadu_ps(rows + i);
      const auto second = is_last ? _mm512_setzero_ps() : _mm512_loadu_ps(rows + stride + i);
      put(packed + i, interleaved(rounded(first, second)));
    }
  }
}

KOLO_AVX512_BF16 void pack(const BFloat16* const* rows, std::int64_t inner, std::int64_t columns,
                           Pair* packed) {
  for (std::int64_t row = 0; row < inner; row += 2) {
    const bool is_last = row + 1 == inner;
    for (std::int64_t i = 0; i < columns; i += lanes, packed += lanes)
      put(packed, interleaved(joined(rows[row] + i, is_last ? nullptr : rows[row + 1] + i)));
  }
}

KOLO_AVX512_BF16 void pack_transposed(const float* rows, std::int64_t stride, std::int64_t inner,
                                      std::int64_t columns, Pair* packed) {
  __m512i block[lanes];
  for (std::int64_t column = 0; column < columns; column += lanes, rows += lanes * stride) {
    for (std::int64_t k = 0; k < inner; k += 2 * lanes) {
      for (std::int64_t i = 0; i < lanes; ++i) {
        const float* const from = rows + i * stride + k;
        block[i] = rounded(_mm512_loadu_ps(from), _mm512_loadu_ps(from + lanes));
      }
      transpose_16x16(block);
      for (std::int64_t i = 0; i < lanes; ++i)
        put(packed + (k / 2 + i) * columns + column, block[i]);
    }
  }
}

// Columns are outermost, so that their packed values stay in the first-level cache.
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t pairs, const Left& a,
              const Pair* b, float* const* c, ProductResult result) {
  for (std::int64_t first = 0; first < columns;) {
    const auto vectors = std::min<std::int64_t>(most_vectors, (columns - first) / lanes);
    const auto& of_vectors = tiles[static_cast<std::size_t>(vectors - 1)];
    for (std::int64_t row = 0; row < rows; row += most_rows) {
      const auto count = std::min<std::int64_t>(most_rows, rows - row);
      of_vectors[static_cast<std::size_t>(count - 1)](columns, pairs, {a.rows + row, a.stride}, b,
                                                      c + row, first, result);
    }
    first += vectors * lanes;
  }
  if (result == ProductResult::is_streamed) _mm_sfence();  // before others are told of it
}

}  // namespace kolo::bfloat16_products
