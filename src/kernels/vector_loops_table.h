#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/image_lanes_loops.h"
#include "kernels/products.h"
#include "kernels/vector_loops.h"
#include "kernels/vector_values.h"
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

constexpr std::int64_t columns_of_tile = most_vectors * lanes;

// A matrix as far as one column of tiles takes it.
struct Right {
  const float* data = nullptr;
  std::int64_t stride = 0;
};

// Values in the smallest first-level cache, 32 KiB, and rows of b that fill it.
constexpr std::int64_t values_of_cache = 32 * 1024 / sizeof(float),
                       rows_of_copy = values_of_cache / columns_of_tile;

// Copies rows to where they have no gaps: those a power of 2 apart share a few places of the
// caches, and drive each other out before the next rows of a meet them.
KOLO_VECTOR Right copied(const Right& rows, std::int64_t count, float* room) {
  const float* from = rows.data;
  float* to = room;
  for (std::int64_t row = 0; row < count; ++row, from += rows.stride, to += columns_of_tile)
    for (std::int64_t v = 0; v < columns_of_tile; v += lanes) store(to + v, loaded(from + v));
  return {room, columns_of_tile};
}

// One column of tiles, of so many vectors.
inline void multiply_column(std::int64_t rows, std::int64_t vectors, std::int64_t inner,
                            const Left& a, const Right& b, float* c, std::int64_t c_stride,
                            ProductResult result) {
  for (std::int64_t row = 0; row < rows; row += most_rows) {
    const auto count = std::min<std::int64_t>(most_rows, rows - row);
    const Left left{a.data + row * a.row_stride, a.row_stride, a.inner_stride};
    tiles[static_cast<std::size_t>((vectors - 1) * most_rows + count - 1)](
        inner, left, b.data, b.stride, c + row * c_stride, c_stride, result);
  }
}

// Tells whether copies of b pay: where a tile is narrower than the kernels' blocks of channels,
// many rows meet it, and the parts of a and b for a column of tiles don't stay in the cache
// together: a transposed a takes a line for each of its columns.
inline bool pays_to_copy(std::int64_t rows, std::int64_t inner, const Left& a,
                         std::int64_t b_stride) {
  constexpr std::int64_t many_rows = 4 * most_rows;
  const bool is_transposed = a.inner_stride != 1;
  return columns_of_tile < channels_of_block && rows >= many_rows &&
         inner * b_stride > values_of_cache / 2 && (is_transposed || inner > rows_of_copy);
}

// The columns of b stay in a cache while all rows meet them; where they are copied, so does their
// part of the inner dimension. Sums are the same either way.
inline void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Left& a,
                     const float* b, std::int64_t b_stride, float* c, std::int64_t c_stride,
                     ProductResult result) {
  alignas(64) float room[rows_of_copy * columns_of_tile];
  const bool is_copied = pays_to_copy(rows, inner, a, b_stride);
  const auto part = is_copied ? rows_of_copy : inner;
  for (std::int64_t k = 0; k < inner; k += part, result = ProductResult::is_added) {
    const auto count = std::min(part, inner - k);
    const Left left{a.data + k * a.inner_stride, a.row_stride, a.inner_stride};
    for (std::int64_t first = 0; first < columns; first += columns_of_tile) {
      const auto vectors = std::min<std::int64_t>(most_vectors, (columns - first) / lanes);
      Right right{b + k * b_stride + first, b_stride};
      if (is_copied && vectors == most_vectors) right = copied(right, count, room);
      multiply_column(rows, vectors, count, left, right, c + first, c_stride, result);
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
