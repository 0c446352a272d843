#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/image_lanes.h"
#include "kernels/products.h"
#include "kernels/winograd.h"

// Loops that are written once and compiled for each width of vectors (vector_loops_avx512.cpp,
// vector_loops_avx2.cpp). The functions of image_lanes.h, products.h and
// winograd.h call the widest that the processor has.
namespace kolo {

struct VectorLoops {
  std::int64_t lanes = 0;  // floats of a vector

  decltype(image_lanes::correlate)* correlate = nullptr;
  decltype(image_lanes::correlate_gradients)* correlate_gradients = nullptr;

  decltype(float32_products::multiply)* multiply = nullptr;

  template <typename T>
  using FindNonzero = void(const T*, std::int64_t, std::int64_t, nonzero_bits::Word*);
  FindNonzero<float>* find_nonzero = nullptr;
  FindNonzero<BFloat16>* find_nonzero_bfloat16 = nullptr;

  template <typename T>
  using SpreadValues = void(winograd::Algorithm, winograd::Spread, const T* const*, std::int64_t,
                            const winograd::Places&, float*);
  template <typename T>
  using CollectValues = void(winograd::Algorithm, winograd::Collect, const float*,
                             const winograd::Places&, std::int64_t, const float*, T* const*);
  SpreadValues<float>* spread = nullptr;
  SpreadValues<BFloat16>* spread_bfloat16 = nullptr;
  CollectValues<float>* collect = nullptr;
  CollectValues<BFloat16>* collect_bfloat16 = nullptr;
};

// Of one width; nothing where this processor has no such vectors. On x86 alone
// (vector_loops_avx512.cpp, vector_loops_avx2.cpp).
[[nodiscard]] std::optional<VectorLoops> vector_loops_of_16();
[[nodiscard]] std::optional<VectorLoops> vector_loops_of_8();

// Those that this processor has, the widest first; none where it has no vectors of 8 floats.
[[nodiscard]] std::vector<VectorLoops> supported_vector_loops();

}  // namespace kolo
