#include <cstddef>

#include "nn/kernels/bfloat16_vectors_avx512.h"
#include "nn/kernels/vectors_avx512.h"
#include "nn/kernels/winograd.h"
#include "nn/kernels/winograd_transforms.h"

// Coefficients that are rounded to bfloat16, for products of it.
namespace kolo::winograd {

namespace {

using namespace vectors_of_16;
using bfloat16_products::interleaved;
using bfloat16_products::put;
using bfloat16_products::rounded;

KOLO_AVX512_BF16_INLINE void store(BFloat16* at, __m512 values) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), (__m256i)_mm512_cvtneps_pbh(values));
}

template <const auto& M>
KOLO_AVX512_BF16 void spread_by(const BFloat16* const* at, std::int64_t channels,
                                const Places& places, BFloat16* coefficients) {
  const int others = places.dimensions() - 1;
  const auto inner = power(M.rows, others);
  Room one, other;
  for (std::int64_t channel = 0; channel < channels; channel += lanes) {
    const float* const gathered = gather<M>(at, channel, others, one, other);
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto result = spread_line<M>(gathered, i, inner);
      BFloat16* const to = coefficients + places.rest(i) + channel;
      for (std::size_t k = 0; k < M.rows; ++k)
        store(to + places.first(static_cast<std::int64_t>(k)), result.at[k]);
    }
  }
}

template <const auto& M, typename T>
KOLO_AVX512_BF16 void spread_pairs_by(const T* const* first, const T* const* second,
                                      std::int64_t channels, const Places& places, Pair* pairs) {
  const int others = places.dimensions() - 1;
  const auto inner = power(M.rows, others);
  Room one, other, next_one, next_other;
  for (std::int64_t channel = 0; channel < channels; channel += lanes) {
    const float* const gathered = gather<M>(first, channel, others, one, other);
    const float* const next = gather<M>(second, channel, others, next_one, next_other);
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto low = spread_line<M>(gathered, i, inner);
      const auto high = spread_line<M>(next, i, inner);
      Pair* const to = pairs + places.rest(i) + channel;
      for (std::size_t k = 0; k < M.rows; ++k)
        put(to + places.first(static_cast<std::int64_t>(k)),
            interleaved(rounded(low.at[k], high.at[k])));
    }
  }
}

}  // namespace

void spread(Spread what, const BFloat16* const* at, std::int64_t channels, const Places& places,
            BFloat16* coefficients) {
  if (what == Spread::inputs)
    return spread_by<TwoOfFourTaps::inputs>(at, channels, places, coefficients);
  spread_by<Transforms<TwoOfFourTaps>::of_outputs>(at, channels, places, coefficients);
}

void spread_pairs(Spread what, const BFloat16* const* first, const BFloat16* const* second,
                  std::int64_t channels, const Places& places, Pair* pairs) {
  if (what == Spread::inputs)
    return spread_pairs_by<TwoOfFourTaps::inputs>(first, second, channels, places, pairs);
  spread_pairs_by<Transforms<TwoOfFourTaps>::of_outputs>(first, second, channels, places, pairs);
}

void spread_pairs(const float* const* first, const float* const* second, std::int64_t channels,
                  const Places& places, Pair* pairs) {
  spread_pairs_by<TwoOfFourTaps::taps>(first, second, channels, places, pairs);
}

}  // namespace kolo::winograd
