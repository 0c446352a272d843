#pragma once

#include <cstdint>
#include <vector>

#include "nn/kernels/bfloat16_products.h"
#include "nn/kernels/float32_products.h"
#include "nn/kernels/winograd.h"

namespace kolo::winograd {

// The products of a minimal algorithm, of matrices of coefficients: one is `Row`s of values, the
// other is `Packed`, in which so many neighbours along the inner dimension are one element. Sums
// are float32. Matrices have no gaps.

struct Float32Products {
  using Row = float;
  using Packed = float;
  static constexpr std::int64_t packed_together = 1;

  // c = a b.
  static void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Row* a,
                       const Packed* b, float* c) {
    float32_products::multiply(rows, columns, inner, {a, inner}, b, columns, c, columns,
                               ProductResult::replaces);
  }

  // c = a^T b or c += a^T b; a has `rows` columns.
  static void multiply_transposed(std::int64_t rows, std::int64_t columns, std::int64_t inner,
                                  const Packed* a, const Packed* b, float* c,
                                  ProductResult result) {
    float32_products::multiply(rows, columns, inner, {a, 1, rows}, b, columns, c, columns, result);
  }

  // Coefficients of the taps of a channel, from those `at` which begin `next` values apart.
  static void spread_taps(Algorithm algorithm, std::vector<const float*>& at, std::int64_t /*next*/,
                          std::int64_t channels, const Places& places, Packed* to) {
    spread(algorithm, Spread::taps, at.data(), channels, places, to);
  }
};

// Of algorithm two_of_four_taps alone (winograd.h).
struct BFloat16Products {
  using Row = BFloat16;
  using Packed = Pair;
  static constexpr std::int64_t packed_together = 2;

  static void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Row* a,
                       const Packed* b, float* c) {
    const auto pairs = inner / packed_together;
    const auto* const first = static_cast<const Pair*>(static_cast<const void*>(a));
    multiply_rows(rows, columns, pairs, first, /*row=*/pairs, /*stride=*/1, b, c,
                  ProductResult::replaces);
  }

  static void multiply_transposed(std::int64_t rows, std::int64_t columns, std::int64_t inner,
                                  const Packed* a, const Packed* b, float* c,
                                  ProductResult result) {
    const auto pairs = (inner + 1) / packed_together;
    multiply_rows(rows, columns, pairs, a, /*row=*/1, /*stride=*/rows, b, c, result);
  }

  // Of two channels.
  static void spread_taps(Algorithm /*algorithm*/, std::vector<const float*>& at, std::int64_t next,
                          std::int64_t channels, const Places& places, Packed* to) {
    auto second = at;
    for (auto& each : second) each += next;
    spread_pairs(at.data(), second.data(), channels, places, to);
  }

 private:
  static void multiply_rows(std::int64_t rows, std::int64_t columns, std::int64_t pairs,
                            const Pair* a, std::int64_t row, std::int64_t stride, const Pair* b,
                            float* c, ProductResult result) {
    std::vector<const Pair*> from;
    std::vector<float*> to;
    for (std::int64_t i = 0; i < rows; ++i) {
      from.push_back(a + i * row);
      to.push_back(c + i * columns);
    }
    bfloat16_products::multiply(rows, columns, pairs, {from.data(), stride}, b, to.data(), result);
  }
};

}  // namespace kolo::winograd
