#pragma once

#include <cstdint>

#include "kernels/products.h"

// Products of float32 matrices that lie in the first caches, with no work besides: for the many
// small products of a kernel. Larger ones are for matrices.h. Only for processors with vectors of
// 8 floats or more.
namespace kolo::float32_products {

[[nodiscard]] bool are_supported();

// Columns are a multiple of so many.
inline constexpr std::int64_t lanes = 16;

// The left-hand matrix; either of its dimensions may be the one without gaps.
struct Left {
  const float* data = nullptr;
  std::int64_t row_stride = 0, inner_stride = 1;
};

// c = a b or c += a b; the rows of b and c are their strides apart.
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Left& a,
              const float* b, std::int64_t b_stride, float* c, std::int64_t c_stride,
              ProductResult result);

}  // namespace kolo::float32_products
