#include "nn/kernels/float32_products.h"

#include <algorithm>
#include <array>

#include <immintrin.h>

// Sums stay in registers: of 6 rows by 4 vectors of columns.
#define KOLO_AVX512 __attribute__((target("avx512f")))

namespace kolo::float32_products {

namespace {

constexpr int most_rows = 6, most_vectors = 4;

// One of a result's tiles, from its first value on.
template <int Rows, int Vectors>
KOLO_AVX512 void tile(std::int64_t inner, const Left& a, const float* b, std::int64_t b_stride,
                      float* c, std::int64_t c_stride, ProductResult result) {
  __m512 sums[Rows][Vectors];
  for (int row = 0; row < Rows; ++row) {
    for (int v = 0; v < Vectors; ++v) {
      sums[row][v] = result == ProductResult::is_added
                         ? _mm512_loadu_ps(c + row * c_stride + v * lanes)
                         : _mm512_setzero_ps();
    }
  }
  const float* factors = a.data;
  for (std::int64_t k = 0; k < inner; ++k, b += b_stride, factors += a.inner_stride) {
    __m512 values[Vectors];
    for (int v = 0; v < Vectors; ++v) values[v] = _mm512_loadu_ps(b + v * lanes);
    for (int row = 0; row < Rows; ++row) {
      const __m512 factor = _mm512_set1_ps(factors[row * a.row_stride]);
      for (int v = 0; v < Vectors; ++v)
        sums[row][v] = _mm512_fmadd_ps(factor, values[v], sums[row][v]);
    }
  }
  for (int row = 0; row < Rows; ++row) {
    for (int v = 0; v < Vectors; ++v)
      _mm512_storeu_ps(c + row * c_stride + v * lanes, sums[row][v]);
  }
}

using Tile = void (*)(std::int64_t, const Left&, const float*, std::int64_t, float*, std::int64_t,
                      ProductResult);

template <int Vectors>
constexpr std::array<Tile, most_rows> tiles_of = {tile<1, Vectors>, tile<2, Vectors>,
                                                  tile<3, Vectors>, tile<4, Vectors>,
                                                  tile<5, Vectors>, tile<6, Vectors>};

constexpr std::array<std::array<Tile, most_rows>, most_vectors> tiles = {tiles_of<1>, tiles_of<2>,
                                                                         tiles_of<3>, tiles_of<4>};

}  // namespace

bool are_supported() {
  return __builtin_cpu_supports("avx512f");
}

// Columns outermost, so that those of b stay in a cache while all rows meet them.
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Left& a,
              const float* b, std::int64_t b_stride, float* c, std::int64_t c_stride,
              ProductResult result) {
  for (std::int64_t first = 0; first < columns; first += most_vectors * lanes) {
    const auto vectors = std::min<std::int64_t>(most_vectors, (columns - first) / lanes);
    const auto& of_vectors = tiles[static_cast<std::size_t>(vectors - 1)];
    for (std::int64_t row = 0; row < rows; row += most_rows) {
      const auto count = std::min<std::int64_t>(most_rows, rows - row);
      const Left left{a.data + row * a.row_stride, a.row_stride, a.inner_stride};
      of_vectors[static_cast<std::size_t>(count - 1)](inner, left, b + first, b_stride,
                                                      c + row * c_stride + first, c_stride, result);
    }
  }
}

}  // namespace kolo::float32_products
