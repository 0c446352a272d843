#pragma once

#include <cstdint>

#include "base/half.h"
#include "kernels/products.h"

// Products of bfloat16 matrices, added up in float32, by the instruction for two of them at once.
// Only for processors that have it.
namespace kolo::bfloat16_products {

// Whether this processor has it (AVX512-BF16); nothing else here may be called where it hasn't.
[[nodiscard]] bool are_supported();

// Two values that are multiplied and added up together, neighbours along the inner dimension.
struct alignas(4) Pair {
  BFloat16 first, second;
};

// Columns are a multiple of so many; so is the inner dimension of a transposed matrix.
inline constexpr std::int64_t lanes = 16;

// The right-hand matrix, [pairs of the inner dimension, columns]. From a matrix of `inner` rows,
// `stride` values apart; where their number is odd, the last has zeros for a neighbour. Rows of
// pairs are `packed_stride` apart.
void pack(const float* rows, std::int64_t stride, std::int64_t inner, std::int64_t columns,
          Pair* packed, std::int64_t packed_stride);
void pack(const BFloat16* const* rows, std::int64_t inner, std::int64_t columns, Pair* packed);
// From its transpose, of `columns` rows; `inner` is a multiple of 2 * lanes.
void pack_transposed(const float* rows, std::int64_t stride, std::int64_t inner,
                     std::int64_t columns, Pair* packed);

// The left-hand matrix by its rows, and how far apart a row's pairs are: 1 where rows are as they
// lie in memory, and the number of columns where a packed matrix is taken for its transpose.
struct Left {
  const Pair* const* rows = nullptr;
  std::int64_t stride = 1;
};

// c = a b or c += a b; c by its rows, b packed.
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t pairs, const Left& a,
              const Pair* b, float* const* c, ProductResult result);

}  // namespace kolo::bfloat16_products
