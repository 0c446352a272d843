#pragma once

#include <cstdint>
#include <span>

#include "base/half.h"

// Products of bfloat16 matrices, added up in float32, by the processor's tiles (Intel AMX, "Intel
// Architecture Instruction Set Extensions Programming Reference", chapter 3): 16 x 32 values times
// 32 x 16 in one instruction. Only for processors that have them.
namespace kolo::tile_products {

// Tells whether this processor has tiles and the system lets this process use them; without them
// nothing else here may be called.
[[nodiscard]] bool are_supported();

inline constexpr std::int64_t tile_lanes = 16;  // rows and columns of a tile of sums
inline constexpr std::int64_t tile_depth = 32;  // values of the inner dimension that a tile has
inline constexpr std::int64_t block_lanes = 2 * tile_lanes;  // rows and columns of a block of sums
inline constexpr std::int64_t tile_values = tile_lanes * tile_depth;

// Sets up the calling thread's tiles, for as long as it lives.
class Tiles {
 public:
  Tiles();
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
  ~Tiles();
};

// The left-hand factor of a block: 16 rows from `upper` and 16 from `lower` (null: none), `stride`
// values apart. The inner dimension is `chunks` times 32 values from each of `shifts` on, which are
// added to both.
struct Left {
  const BFloat16* upper = nullptr;
  const BFloat16* lower = nullptr;
  std::int64_t stride = 0;
  std::span<const std::int64_t> shifts;
  std::int64_t chunks = 1;
};

// The right-hand factor: packed tiles of 16 columns, one for each 32 values of the inner dimension,
// and those of 16 more columns (null: none).
struct Right {
  const BFloat16* first = nullptr;
  const BFloat16* second = nullptr;
};

// Sums of a block of at most 32 x 32 values, as many as the factors have, whose rows are `stride`
// values apart; they replace what is there or are added to it.
struct Sums {
  float* values = nullptr;
  std::int64_t stride = block_lanes;
  bool is_added = false;
};

void multiply(const Left& left, const Right& right, const Sums& sums);

// Packs a matrix of 32 rows, `stride` values apart, and columns that are a multiple of 16: a tile
// for each 16 of them, `tile_stride` values apart.
void pack(const float* rows, std::int64_t stride, std::int64_t columns, BFloat16* packed,
          std::int64_t tile_stride);
void pack(const BFloat16* rows, std::int64_t stride, std::int64_t columns, BFloat16* packed,
          std::int64_t tile_stride);
// One tile of the transpose of 16 rows of 32 values.
void pack_transposed(const float* rows, std::int64_t stride, BFloat16* packed);

// Transposes 32 rows of `columns` values, a multiple of 16, into rows of 32 values.
void transpose(const BFloat16* rows, std::int64_t stride, std::int64_t columns, BFloat16* into,
               std::int64_t into_stride);

// Copies rows of a block of sums past the caches. Columns and `stride` are multiples of 16; where
// rows don't begin at a multiple of 64 bytes, the copy is a plain one.
void stream(const float* sums, std::int64_t rows, std::int64_t columns, float* into,
            std::int64_t stride);

// Rounds a row of up to 32 sums plus a bias (null: none).
void round_row(const float* sums, const float* bias, std::int64_t columns, BFloat16* into);

}  // namespace kolo::tile_products
