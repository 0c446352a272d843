// Tiles of bfloat16 that the host plays, in the place of the processor's
// (src/kernels/tile_products.h): the kernels above them are tested on any processor. Memory is read
// and written exactly as the tiles' instructions do it, for AddressSanitizer.
#include <array>
#include <bit>
#include <cstring>

#include "base/half.h"
#include "kernels/tile_products.h"
#include "kolo/base/error.h"

namespace kolo::tile_products {

namespace {

using Sums16x16 = std::array<std::array<float, tile_lanes>, tile_lanes>;
using Row = std::array<BFloat16, tile_depth>;  // 64 bytes
using Tile = std::array<Row, tile_lanes>;

thread_local bool is_configured = false;

void expect_configured(bool wanted) {
  if (is_configured != wanted)
    throw Error(wanted ? "tiles: used by a thread that has not set them up"
                       : "tiles: set up twice by one thread");
}

Tile load(const BFloat16* rows, std::int64_t stride) {
  Tile tile;
  for (auto& row : tile) {
    std::memcpy(row.data(), rows, sizeof(row));
    rows += stride;
  }
  return tile;
}

// The right-hand tile has two values of the inner dimension side by side.
void add_product(Sums16x16& sums, const Tile& left, const Tile& right) {
  for (std::size_t row = 0; row < left.size(); ++row) {
    for (std::size_t pair = 0; pair < right.size(); ++pair) {
      const float even = to_float(left[row][2 * pair]), odd = to_float(left[row][2 * pair + 1]);
      for (std::size_t column = 0; column < sums[row].size(); ++column) {
        sums[row][column] += even * to_float(right[pair][2 * column]);
        sums[row][column] += odd * to_float(right[pair][2 * column + 1]);
      }
    }
  }
}

void multiply_tiles(const BFloat16* left, const BFloat16* right, const Left& shape, float* values,
                    const Sums& result) {
  Sums16x16 sums{};
  if (result.is_added)
    for (std::size_t row = 0; row < sums.size(); ++row)
      std::memcpy(sums[row].data(), values + static_cast<std::int64_t>(row) * result.stride,
                  sizeof(sums[row]));
  for (const auto shift : shape.shifts) {
    for (std::int64_t chunk = 0; chunk < shape.chunks; ++chunk, right += tile_values)
      add_product(sums, load(left + shift + chunk * tile_depth, shape.stride),
                  load(right, tile_depth));
  }
  for (std::size_t row = 0; row < sums.size(); ++row)
    std::memcpy(values + static_cast<std::int64_t>(row) * result.stride, sums[row].data(),
                sizeof(sums[row]));
}

BFloat16 rounded(float value) {
  return to_bfloat16(value);
}

BFloat16 rounded(BFloat16 value) {
  return value;
}

template <typename T>
void pack_rows(const T* rows, std::int64_t stride, std::int64_t columns, BFloat16* packed,
               std::int64_t tile_stride) {
  for (std::int64_t row = 0; row < tile_depth; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      auto* const tile = packed + column / tile_lanes * tile_stride;
      tile[row / 2 * tile_depth + column % tile_lanes * 2 + row % 2] =
          rounded(rows[row * stride + column]);
    }
  }
}

}  // namespace

bool are_supported() {
  return true;
}

Tiles::Tiles() {
  expect_configured(false);
  is_configured = true;
}

Tiles::~Tiles() {
  is_configured = false;
}

void multiply(const Left& left, const Right& right, const Sums& sums) {
  expect_configured(true);
  const auto multiply_columns = [&](const BFloat16* tiles, float* values) {
    multiply_tiles(left.upper, tiles, left, values, sums);
    if (left.lower != nullptr)
      multiply_tiles(left.lower, tiles, left, values + tile_lanes * sums.stride, sums);
  };
  multiply_columns(right.first, sums.values);
  if (right.second != nullptr) multiply_columns(right.second, sums.values + tile_lanes);
}

void pack(const float* rows, std::int64_t stride, std::int64_t columns, BFloat16* packed,
          std::int64_t tile_stride) {
  pack_rows(rows, stride, columns, packed, tile_stride);
}

void pack(const BFloat16* rows, std::int64_t stride, std::int64_t columns, BFloat16* packed,
          std::int64_t tile_stride) {
  pack_rows(rows, stride, columns, packed, tile_stride);
}

void pack_transposed(const float* rows, std::int64_t stride, BFloat16* packed) {
  for (std::int64_t column = 0; column < tile_lanes; ++column, rows += stride)
    for (std::int64_t row = 0; row < tile_depth; ++row)
      packed[row / 2 * tile_depth + column * 2 + row % 2] = rounded(rows[row]);
}

void transpose(const BFloat16* rows, std::int64_t stride, std::int64_t columns, BFloat16* into,
               std::int64_t into_stride) {
  for (std::int64_t row = 0; row < tile_depth; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      into[column * into_stride + row] = rows[row * stride + column];
}

void stream(const float* sums, std::int64_t rows, std::int64_t columns, float* into,
            std::int64_t stride) {
  for (std::int64_t row = 0; row < rows; ++row)
    std::memcpy(into + row * stride, sums + row * block_lanes,
                static_cast<std::size_t>(columns) * sizeof(float));
}

void round_row(const float* sums, const float* bias, std::int64_t columns, BFloat16* into) {
  for (std::int64_t column = 0; column < columns; ++column)
    into[column] = rounded(sums[column] + (bias == nullptr ? 0 : bias[column]));
}

}  // namespace kolo::tile_products
