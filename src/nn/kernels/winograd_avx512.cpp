#include "nn/kernels/winograd.h"

#include <cstddef>

#include "nn/kernels/winograd_transforms_avx512.h"

namespace kolo::winograd {

namespace {

KOLO_AVX512_INLINE void store(float* at, __m512 values) {
  _mm512_storeu_ps(at, values);
}

// To the nearest, of two equally near the even one; what is no number stays none.
KOLO_AVX512_INLINE void store(BFloat16* at, __m512 values) {
  const __m512i bits = _mm512_castps_si512(values);
  const __m512i is_odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded =
      _mm512_add_epi32(bits, _mm512_add_epi32(is_odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __mmask16 is_none = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
  const __m512i result = _mm512_mask_blend_epi32(is_none, rounded, quiet);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(at),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(result, 16)));
}

// The first dimension last, as its vectors are put away.
template <const auto& M, typename T>
KOLO_AVX512 void spread_by(const T* const* at, std::int64_t channels, const Places& places,
                           float* coefficients) {
  const int others = places.dimensions() - 1;
  const auto inner = power(M.rows, others);
  Room one, other;
  for (std::int64_t channel = 0; channel < channels; channel += lanes) {
    const float* const gathered = gather<M>(at, channel, others, one, other);
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto result = spread_line<M>(gathered, i, inner);
      float* const to = coefficients + places.rest(i) + channel;
      for (std::size_t k = 0; k < M.rows; ++k)
        _mm512_storeu_ps(to + places.first(static_cast<std::int64_t>(k)), result.at[k]);
    }
  }
}

// What becomes of a vector that was collected.
struct Put {
  const float* bias = nullptr;
  bool is_added = false;

  template <typename T>
  KOLO_AVX512_INLINE void operator()(T* at, std::int64_t channel, __m512 values) const {
    if (at == nullptr) return;
    if (is_added) values = _mm512_add_ps(values, loaded(at + channel));
    if (bias != nullptr) values = _mm512_add_ps(values, _mm512_loadu_ps(bias + channel));
    store(at + channel, values);
  }
};

template <const auto& M, typename T>
KOLO_AVX512 void collect_by(const float* coefficients, const Places& places, std::int64_t channels,
                            const Put& put, T* const* at) {
  constexpr auto columns = static_cast<std::int64_t>(M.columns),
                 rows = static_cast<std::int64_t>(M.rows);
  const int others = places.dimensions() - 1;
  Room one, other;
  for (std::int64_t channel = 0; channel < channels; channel += lanes) {
    const auto inner = power(columns, others);
    for (std::int64_t i = 0; i < inner; ++i) {
      const float* const from = coefficients + places.rest(i) + channel;
      Line<M.columns> line;
      for (std::int64_t k = 0; k < columns; ++k)
        line.at[k] = _mm512_loadu_ps(from + places.first(k));
      Line<M.rows> result;
      product<M>(line, result);
      for (std::int64_t k = 0; k < rows; ++k)
        _mm512_store_ps(one.values + (k * inner + i) * lanes, result.at[k]);
    }
    const Room* last = &one;
    if (others == 2) {
      along<M>(rows, columns, one.values, other.values);
      last = &other;
    }
    for (std::int64_t i = 0; i < power(rows, others); ++i) {
      Line<M.columns> line;
      for (std::int64_t k = 0; k < columns; ++k)
        line.at[k] = _mm512_load_ps(last->values + (i * columns + k) * lanes);
      Line<M.rows> result;
      product<M>(line, result);
      for (std::int64_t k = 0; k < rows; ++k) put(at[i * rows + k], channel, result.at[k]);
    }
  }
}

template <typename Matrices, typename T>
void spread_with(Spread what, const T* const* at, std::int64_t channels, const Places& places,
                 float* coefficients) {
  switch (what) {
    case Spread::inputs:
      return spread_by<Matrices::inputs>(at, channels, places, coefficients);
    case Spread::output_gradients:
      return spread_by<Transforms<Matrices>::of_outputs>(at, channels, places, coefficients);
    case Spread::taps:
      return spread_by<Matrices::taps>(at, channels, places, coefficients);
  }
}

template <typename T>
void spread_values(Algorithm algorithm, Spread what, const T* const* at, std::int64_t channels,
                   const Places& places, float* coefficients) {
  if (algorithm == Algorithm::four_of_three_taps)
    return spread_with<FourOfThreeTaps>(what, at, channels, places, coefficients);
  return spread_with<TwoOfFourTaps>(what, at, channels, places, coefficients);
}

template <typename Matrices, typename T>
void collect_with(Collect what, const float* coefficients, const Places& places,
                  std::int64_t channels, const float* bias, T* const* at) {
  switch (what) {
    case Collect::outputs:
      return collect_by<Matrices::outputs>(coefficients, places, channels, {bias, false}, at);
    case Collect::input_gradients:
      return collect_by<Transforms<Matrices>::of_inputs>(coefficients, places, channels,
                                                         {bias, true}, at);
    case Collect::tap_gradients:
      return collect_by<Transforms<Matrices>::of_taps>(coefficients, places, channels,
                                                       {bias, false}, at);
  }
}

template <typename T>
void collect_values(Algorithm algorithm, Collect what, const float* coefficients,
                    const Places& places, std::int64_t channels, const float* bias, T* const* at) {
  if (algorithm == Algorithm::four_of_three_taps)
    return collect_with<FourOfThreeTaps>(what, coefficients, places, channels, bias, at);
  return collect_with<TwoOfFourTaps>(what, coefficients, places, channels, bias, at);
}

}  // namespace

bool is_supported() {
  return __builtin_cpu_supports("avx512f");
}

void spread(Algorithm algorithm, Spread what, const float* const* at, std::int64_t channels,
            const Places& places, float* coefficients) {
  spread_values(algorithm, what, at, channels, places, coefficients);
}

void spread(Algorithm algorithm, Spread what, const BFloat16* const* at, std::int64_t channels,
            const Places& places, float* coefficients) {
  spread_values(algorithm, what, at, channels, places, coefficients);
}

void collect(Algorithm algorithm, Collect what, const float* coefficients, const Places& places,
             std::int64_t channels, const float* bias, float* const* at) {
  collect_values(algorithm, what, coefficients, places, channels, bias, at);
}

void collect(Algorithm algorithm, Collect what, const float* coefficients, const Places& places,
             std::int64_t channels, const float* bias, BFloat16* const* at) {
  collect_values(algorithm, what, coefficients, places, channels, bias, at);
}

}  // namespace kolo::winograd
