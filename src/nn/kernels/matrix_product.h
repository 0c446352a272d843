#pragma once

#include <cstdint>

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>

#include "kolo/base/error.h"

namespace kolo {

// A row-major matrix whose rows are `stride` values apart; `transpose` when it is stored so.
struct Matrix {
  const float* data = nullptr;
  std::int64_t stride = 0;
  bool transpose = false;
};

// C = A B; A is rows x inner, B inner x columns, C dense.
inline void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Matrix& a,
                     const Matrix& b, float* c) {
  const auto letter = [](const Matrix& matrix) { return matrix.transpose ? 'T' : 'N'; };
  const auto status = dnnl_sgemm(letter(a), letter(b), rows, columns, inner, 1, a.data, a.stride,
                                 b.data, b.stride, 0, c, columns);
  if (status != dnnl_success)
    throw Error(fmt::format("nn: oneDNN: a product of matrices: status {}", int{status}));
}

}  // namespace kolo
