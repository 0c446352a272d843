#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/image_lanes_loops.h"
#include "kernels/products.h"
#include "kernels/vector_loops.h"
#include "kernels/winograd_loops.h"

// The loops of float32_products, for vectors that were included before.
namespace kolo::KOLO_VECTORS {

using float32_products::Left;

// Sums that stay in registers, beside their operands.
constexpr int most_rows = 6, most_vectors = registers == 32 ? 4 : 2;

// One of a result's tiles, from its first value on.
template <int Rows, int Vectors>
KOLO_VECTOR void tile(std::int64_t inner, const Left& a, const float* b, std::int64_t b_stride,
                      float* c, std::int64_t c_stride, ProductResult result) {
  Vector sums[Rows][Vectors];
  for (int row = 0; row < Rows; ++row) {
    for (int v = 0; v < Vectors; ++v) {
      sums[row][v] =
          result == ProductResult::is_added ? loaded(c + row * c_stride + v * lanes) : zeros();
    }
  }
  const float* factors = a.data;
  for (std::int64_t k = 0; k < inner; ++k, b += b_stride, factors += a.inner_stride) {
    Vector values[Vectors];
    for (int v = 0; v < Vectors; ++v) values[v] = loaded(b + v * lanes);
    for (int row = 0; row < Rows; ++row) {
      const Vector factor = all(factors[row * a.row_stride]);
      for (int v = 0; v < Vectors; ++v)
        sums[row][v] = multiplied_added(factor, values[v], sums[row][v]);
    }
  }
  for (int row = 0; row < Rows; ++row) {
    for (int v = 0; v < Vectors; ++v) store(c + row * c_stride + v * lanes, sums[row][v]);
  }
}

using Tile = void (*)(std::int64_t, const Left&, const float*, std::int64_t, float*, std::int64_t,
                      ProductResult);

// By vectors and rows, of which there is one at least.
template <std::size_t... I>
constexpr auto tiles_of(std::index_sequence<I...>) {
  return std::array<Tile, sizeof...(I)>{tile<I % most_rows + 1, I / most_rows + 1>...};
}

constexpr auto tiles = tiles_of(std::make_index_sequence<most_vectors * most_rows>());

// Columns are outermost, so that b's stay in a cache while all rows meet them.
inline void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Left& a,
                     const float* b, std::int64_t b_stride, float* c, std::int64_t c_stride,
                     ProductResult result) {
  for (std::int64_t first = 0; first < columns; first += most_vectors * lanes) {
    const auto vectors = std::min<std::int64_t>(most_vectors, (columns - first) / lanes);
    for (std::int64_t row = 0; row < rows; row += most_rows) {
      const auto count = std::min<std::int64_t>(most_rows, rows - row);
      const Left left{a.data + row * a.row_stride, a.row_stride, a.inner_stride};
      tiles[static_cast<std::size_t>((vectors - 1) * most_rows + count - 1)](
          inner, left, b + first, b_stride, c + row * c_stride + first, c_stride, result);
    }
  }
}

// The loops of nonzero_bits, for vectors that were included before.

template <typename T>
KOLO_VECTOR void find_nonzero(const T* vectors, std::int64_t count, std::int64_t channels,
                              nonzero_bits::Word* bits) {
  for (std::int64_t i = 0; i < count; ++i, vectors += channels) {
    for (std::int64_t first = 0; first < channels; first += nonzero_bits::bits_of_word, ++bits) {
      const auto end = std::min(first + nonzero_bits::bits_of_word, channels);
      nonzero_bits::Word word = 0;
      for (auto channel = first; channel < end; channel += lanes)
        word |= nonzero_bits::Word{nonzero(loaded(vectors + channel))} << (channel - first);
      *bits = word;
    }
  }
}

// All loops, for vectors that were included before.

template <typename T>
TypedVectorLoops<T> loops_of() {
  return {.find_nonzero = find_nonzero<T>, .spread = spread<T>, .collect = collect<T>};
}

inline VectorLoops all_loops() {
  return {.lanes = lanes,
          .correlate = correlate,
          .correlate_gradients = correlate_gradients,
          .multiply = multiply,
          .of_float = loops_of<float>(),
          .of_bfloat16 = loops_of<BFloat16>()};
}

}  // namespace kolo::KOLO_VECTORS
