#pragma once

#include <cstdint>

#include <torch/types.h>

// Products and copies of float32 matrices, by oneDNN (onednn.cpp) or, where kolo is built
// without it, by LibTorch (onednn_left_out.cpp).
namespace kolo {

// A row-major matrix whose rows are `stride` values apart; `transpose` when it is stored so.
struct Matrix {
  const float* data = nullptr;
  std::int64_t stride = 0;
  bool transpose = false;
};

// C = A B; A is rows x inner, B inner x columns, C dense. From any thread; inside of a parallel
// region it stays on its own.
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Matrix& a,
              const Matrix& b, float* c);

// Whether this processor multiplies whole tiles of bfloat16 at once (AMX), many times as fast as
// float32.
[[nodiscard]] bool has_tiles_of_bfloat16();

// Copies values between tensors of one shape, dense in memory but in different orders.
void reorder(const torch::Tensor& from, const torch::Tensor& to);

}  // namespace kolo
