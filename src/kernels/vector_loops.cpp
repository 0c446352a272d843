#include "kernels/vector_loops.h"

#include <initializer_list>

#include "kolo/base/error.h"

namespace kolo {

std::vector<VectorLoops> supported_vector_loops() {
  std::vector<VectorLoops> result;
#if defined(__x86_64__)
  for (const auto& loops : {vector_loops_of_16(), vector_loops_of_8()})
    if (loops) result.push_back(*loops);
#endif
  return result;
}

namespace {

bool has_vectors() {
  return !supported_vector_loops().empty();
}

VectorLoops widest_loops() {
  const auto supported = supported_vector_loops();
  if (supported.empty()) throw Error("nn: vectors of 8 floats on a processor that has none");
  return supported.front();
}

const VectorLoops& loops() {
  static const VectorLoops widest = widest_loops();
  return widest;
}

}  // namespace

bool image_lanes::are_supported() {
  return has_vectors();
}

void image_lanes::correlate(const Correlation& shape, const float* input, const float* packed,
                            const float* bias, float* output, std::int64_t begin,
                            std::int64_t end) {
  loops().correlate(shape, input, packed, bias, output, begin, end);
}

void image_lanes::correlate_gradients(const Correlation& shape, const float* input,
                                      const float* gradient, float* weight_gradient,
                                      std::int64_t begin, std::int64_t end) {
  loops().correlate_gradients(shape, input, gradient, weight_gradient, begin, end);
}

bool float32_products::are_supported() {
  return has_vectors();
}

void float32_products::multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner,
                                const Left& a, const float* b, std::int64_t b_stride, float* c,
                                std::int64_t c_stride, ProductResult result) {
  loops().multiply(rows, columns, inner, a, b, b_stride, c, c_stride, result);
}

void nonzero_bits::find(const float* vectors, std::int64_t count, std::int64_t channels,
                        Word* bits) {
  loops().find_nonzero(vectors, count, channels, bits);
}

void nonzero_bits::find(const BFloat16* vectors, std::int64_t count, std::int64_t channels,
                        Word* bits) {
  loops().find_nonzero_bfloat16(vectors, count, channels, bits);
}

bool winograd::is_supported() {
  return has_vectors();
}

void winograd::spread(Algorithm algorithm, Spread what, const float* const* at,
                      std::int64_t channels, const Places& places, float* coefficients) {
  loops().spread(algorithm, what, at, channels, places, coefficients);
}

void winograd::spread(Algorithm algorithm, Spread what, const BFloat16* const* at,
                      std::int64_t channels, const Places& places, float* coefficients) {
  loops().spread_bfloat16(algorithm, what, at, channels, places, coefficients);
}

void winograd::collect(Algorithm algorithm, Collect what, const float* coefficients,
                       const Places& places, std::int64_t channels, const float* bias,
                       float* const* at) {
  loops().collect(algorithm, what, coefficients, places, channels, bias, at);
}

void winograd::collect(Algorithm algorithm, Collect what, const float* coefficients,
                       const Places& places, std::int64_t channels, const float* bias,
                       BFloat16* const* at) {
  loops().collect_bfloat16(algorithm, what, coefficients, places, channels, bias, at);
}

}  // namespace kolo
