#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/winograd.h"
#include "kernels/winograd_transforms.h"

// The transforms of winograd.h, for vectors that were included before.
namespace kolo::KOLO_VECTORS {

using winograd::Algorithm;
using winograd::Collect;
using winograd::Places;
using winograd::Spread;

// The first dimension last, as its vectors are put away.
template <const auto& M, typename T>
KOLO_VECTOR void spread_by(const T* const* at, std::int64_t channels, const Places& places,
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
        store(to + places.first(static_cast<std::int64_t>(k)), result.at[k]);
    }
  }
}

// What becomes of a vector that was collected.
struct Put {
  const float* bias = nullptr;
  bool is_added = false;

  template <typename T>
  KOLO_VECTOR_INLINE void operator()(T* at, std::int64_t channel, Vector values) const {
    if (at == nullptr) return;
    if (is_added) values = added(values, loaded(at + channel));
    if (bias != nullptr) values = added(values, loaded(bias + channel));
    store(at + channel, values);
  }
};

template <const auto& M, typename T>
KOLO_VECTOR void collect_by(const float* coefficients, const Places& places, std::int64_t channels,
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
      for (std::int64_t k = 0; k < columns; ++k) line.at[k] = loaded(from + places.first(k));
      Line<M.rows> result;
      product<M>(line, result);
      for (std::int64_t k = 0; k < rows; ++k)
        store(one.values + (k * inner + i) * lanes, result.at[k]);
    }
    const Room* last = &one;
    if (others == 2) {
      along<M>(rows, columns, one.values, other.values);
      last = &other;
    }
    for (std::int64_t i = 0; i < power(rows, others); ++i) {
      Line<M.columns> line;
      for (std::int64_t k = 0; k < columns; ++k)
        line.at[k] = loaded(last->values + (i * columns + k) * lanes);
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
void spread(Algorithm algorithm, Spread what, const T* const* at, std::int64_t channels,
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
void collect(Algorithm algorithm, Collect what, const float* coefficients, const Places& places,
             std::int64_t channels, const float* bias, T* const* at) {
  if (algorithm == Algorithm::four_of_three_taps)
    return collect_with<FourOfThreeTaps>(what, coefficients, places, channels, bias, at);
  return collect_with<TwoOfFourTaps>(what, coefficients, places, channels, bias, at);
}

}  // namespace kolo::KOLO_VECTORS
