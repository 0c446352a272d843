#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/half.h"
#include "kernels/image_lanes.h"
#include "kernels/products.h"
#include "kernels/winograd.h"

// Loops that are written once and compiled for each width of vectors (vector_loops_avx512.cpp,
// vector_loops_avx2.cpp, vector_loops_neon.cpp), of which kernels take the widest that the
// processor has. Channels are a multiple of 16.
namespace kolo {

// Loops over values of one type.
template <typename T>
struct TypedVectorLoops {
  // The bits of `count` vectors, one after another. NaN is not 0.
  void (*find_nonzero)(const T* vectors, std::int64_t count, std::int64_t channels,
                       nonzero_bits::Word* bits) = nullptr;

  // `at` has a pointer for each position of the window, tile or kernel, with the last dimension
  // running fastest; padding points to zeros. Coefficients and taps are float32: rounding the sums
  // to bfloat16 would cost too many digits.
  void (*spread)(winograd::Algorithm algorithm, winograd::Spread what, const T* const* at,
                 std::int64_t channels, const winograd::Offsets& offsets,
                 float* coefficients) = nullptr;
  // A null pointer in `at` is a position outside. Gradients of inputs are added to the values
  // there, as windows overlap; `bias` may be null. Only outputs may be bfloat16.
  void (*collect)(winograd::Algorithm algorithm, winograd::Collect what, const float* coefficients,
                  const winograd::Offsets& offsets, std::int64_t channels, const float* bias,
                  T* const* at) = nullptr;
};

struct VectorLoops {
  std::int64_t lanes = 0;  // floats of a vector

  // Rows [begin, end) of the output. `bias` is a value an output channel, or null.
  void (*correlate)(const image_lanes::Correlation& shape, const float* input, const float* packed,
                    const float* bias, float* output, std::int64_t begin,
                    std::int64_t end) = nullptr;
  // The gradient of a weight [outputs, inputs, kernel_height, kernel_width] from those of the
  // outputs, for input channels [begin, end); without padding.
  void (*correlate_gradients)(const image_lanes::Correlation& shape, const float* input,
                              const float* gradient, float* weight_gradient, std::int64_t begin,
                              std::int64_t end) = nullptr;

  // c = a b or c += a b; the rows of b and c are their strides apart.
  void (*multiply)(std::int64_t rows, std::int64_t columns, std::int64_t inner,
                   const float32_products::Left& a, const float* b, std::int64_t b_stride, float* c,
                   std::int64_t c_stride, ProductResult result) = nullptr;

  TypedVectorLoops<float> of_float;
  TypedVectorLoops<BFloat16> of_bfloat16;

  template <typename T>
  [[nodiscard]] const TypedVectorLoops<T>& of() const {
    if constexpr (std::is_same_v<T, float>)
      return of_float;
    else
      return of_bfloat16;
  }
};

// Loops of one width, on x86; nothing where this processor has no such vectors.
[[nodiscard]] std::optional<VectorLoops> vector_loops_of_16();
[[nodiscard]] std::optional<VectorLoops> vector_loops_of_8();
// On aarch64.
[[nodiscard]] VectorLoops vector_loops_of_4();

// Loops that this processor has, the widest first; none on x86 without vectors of 8 floats, and on
// other processors.
[[nodiscard]] inline const std::vector<VectorLoops>& supported_vector_loops() {
  static const auto supported = [] {
    std::vector<VectorLoops> found;
#if defined(__x86_64__)
    for (const auto& loops : {vector_loops_of_16(), vector_loops_of_8()})
      if (loops) found.push_back(*loops);
#elif defined(__aarch64__)
    found.push_back(vector_loops_of_4());
#endif
    return found;
  }();
  return supported;
}

[[nodiscard]] inline bool has_vector_loops() {
  return !supported_vector_loops().empty();
}

// The widest. Only where has_vector_loops().
[[nodiscard]] inline const VectorLoops& vector_loops() {
  return supported_vector_loops().front();
}

}  // namespace kolo
