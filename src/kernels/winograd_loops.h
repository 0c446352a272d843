#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/vector_values.h"
#include "kernels/winograd.h"

// Transforms of minimal algorithms, for vectors that were included before: their matrices, and
// products with them that are written out when compiled.

namespace kolo::KOLO_VECTORS {

// Small enough that products with it are written out when compiled.
template <std::size_t Rows, std::size_t Columns>
struct Matrix {
  static constexpr std::size_t rows = Rows, columns = Columns;
  float values[Rows][Columns];
};

template <std::size_t Rows, std::size_t Columns>
constexpr auto transposed(const Matrix<Rows, Columns>& matrix) {
  Matrix<Columns, Rows> result{};
  for (std::size_t i = 0; i < Rows; ++i)
    for (std::size_t j = 0; j < Columns; ++j) result.values[j][i] = matrix.values[i][j];
  return result;
}

// The same for even and odd positions, each for itself, side by side.
template <std::size_t Rows, std::size_t Columns>
constexpr auto of_two_phases(const Matrix<Rows, Columns>& matrix) {
  Matrix<2 * Rows, 2 * Columns> result{};
  for (std::size_t i = 0; i < 2 * Rows; ++i)
    for (std::size_t j = 0; j < 2 * Columns; ++j)
      if (i % 2 == j % 2) result.values[i][j] = matrix.values[i / 2][j / 2];
  return result;
}

// Outputs are made of products of what is made of inputs and of taps.

// Polynomials of the taps and of the inputs are multiplied by their values at 0, p, -p, q, -q and
// infinity. Of the points that binary numbers have exactly these were found to lose the fewest
// digits: an error of 1.9 times that of the plain sums, of random values, against 4.5 times with
// the usual 1 and 2.
struct FourOfThreeTaps {
  static constexpr float p = .625F, p2 = p * p, p3 = p * p2, q = 1.5F, q2 = q * q, q3 = q * q2;
  static constexpr float p2q2 = p2 * q2, pq2 = p * q2, p2q = p2 * q, both = -p2 - q2;
  static constexpr Matrix<6, 6> inputs = {{{p2q2, 0, both, 0, 1, 0},
                                           {0, -pq2, -q2, p, 1, 0},
                                           {0, pq2, -q2, -p, 1, 0},
                                           {0, -p2q, -p2, q, 1, 0},
                                           {0, p2q, -p2, -q, 1, 0},
                                           {0, p2q2, 0, both, 0, 1}}};
  static constexpr double of_p = 1. / (2. * p2 * (p2 - q2)), of_q = 1. / (2. * q2 * (q2 - p2));
  static constexpr float g0 = 1. / p2q2, gp = of_p, gpp = p * of_p, gp2 = p2 * of_p, gq = of_q,
                         gqq = q * of_q, gq2 = q2 * of_q;
  static constexpr Matrix<6, 3> taps = {
      {{g0, 0, 0}, {gp, gpp, gp2}, {gp, -gpp, gp2}, {gq, gqq, gq2}, {gq, -gqq, gq2}, {0, 0, 1}}};
  static constexpr Matrix<4, 6> outputs = {
      {{1, 1, 1, 1, 1, 0}, {0, p, -p, q, -q, 0}, {0, p2, p2, q2, q2, 0}, {0, p3, -p3, q3, -q3, 1}}};
};

struct TwoOfFourTaps {
  static constexpr auto inputs = of_two_phases(Matrix<3, 3>{{{1, -1, 0}, {0, 1, 0}, {0, 1, -1}}});
  static constexpr auto taps = of_two_phases(Matrix<3, 2>{{{1, 0}, {1, 1}, {0, 1}}});
  static constexpr Matrix<2, 3> outputs = {{{1, 1, 0}, {0, 1, -1}}};
};

// Matrix that each of its transforms is the product with.
template <typename Matrices>
struct Transforms : Matrices {
  static constexpr auto of_outputs = transposed(Matrices::outputs);
  static constexpr auto of_inputs = transposed(Matrices::inputs);
  static constexpr auto of_taps = transposed(Matrices::taps);
};

template <std::size_t Count>
struct Line {
  Vector at[Count];
};

template <const auto& M, std::size_t Row, std::size_t Column, bool HasSum>
KOLO_VECTOR_INLINE Vector with_added(Vector sum, Vector value) {
  constexpr float factor = M.values[Row][Column];
  if constexpr (factor == 0) return sum;
  if constexpr (!HasSum) return factor == 1 ? value : all(factor) * value;
  if constexpr (factor == 1) return sum + value;
  if constexpr (factor == -1) return sum - value;
  return multiplied_added(all(factor), value, sum);
}

template <const auto& M, std::size_t Row, std::size_t Column, bool HasSum>
KOLO_VECTOR_INLINE Vector sum_of_row(const Line<M.columns>& line, Vector sum) {
  if constexpr (Column == M.columns) {
    return sum;
  } else {
    sum = with_added<M, Row, Column, HasSum>(sum, line.at[Column]);
    constexpr bool has_sum = HasSum || M.values[Row][Column] != 0;
    return sum_of_row<M, Row, Column + 1, has_sum>(line, sum);
  }
}

template <const auto& M, std::size_t Row = 0>
KOLO_VECTOR_INLINE void product(const Line<M.columns>& line, Line<M.rows>& result) {
  if constexpr (Row < M.rows) {
    result.at[Row] = sum_of_row<M, Row, 0, false>(line, zeros());
    product<M, Row + 1>(line, result);
  }
}

constexpr std::int64_t power(std::int64_t base, int exponent) {
  std::int64_t result = 1;
  for (int i = 0; i < exponent; ++i) result *= base;
  return result;
}

// A box of vectors, transformed along one dimension: [outer, columns, inner] to [outer, rows,
// inner].
template <const auto& M>
KOLO_VECTOR_INLINE void along(std::int64_t outer, std::int64_t inner, const float* from,
                              float* to) {
  constexpr auto columns = static_cast<std::int64_t>(M.columns),
                 rows = static_cast<std::int64_t>(M.rows);
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) {
      Line<M.columns> line;
      for (std::int64_t k = 0; k < columns; ++k)
        line.at[k] = loaded(from + ((o * columns + k) * inner + i) * lanes);
      Line<M.rows> result;
      product<M>(line, result);
      for (std::int64_t k = 0; k < rows; ++k)
        store(to + ((o * rows + k) * inner + i) * lanes, result.at[k]);
    }
  }
}

// Room for the largest box: six vectors in each of three dimensions.
struct alignas(64) Room {
  float values[6 * 6 * 6 * lanes];
};

// Transforms a vector's lanes of channels, the first of which are `at` + channel, along all
// dimensions but the first: to [columns of M, inner], in one of two rooms. The last dimension comes
// first, as its vectors are gathered.
template <const auto& M, typename T>
KOLO_VECTOR_INLINE const float* gather(const T* const* at, std::int64_t channel, int others,
                                       Room& one, Room& other) {
  constexpr auto columns = static_cast<std::int64_t>(M.columns),
                 rows = static_cast<std::int64_t>(M.rows);
  for (std::int64_t i = 0; i < power(columns, others); ++i) {
    Line<M.columns> line;
    for (std::int64_t k = 0; k < columns; ++k) line.at[k] = loaded(at[i * columns + k] + channel);
    Line<M.rows> result;
    product<M>(line, result);
    for (std::int64_t k = 0; k < rows; ++k)
      store(one.values + (i * rows + k) * lanes, result.at[k]);
  }
  if (others < 2) return one.values;
  along<M>(columns, rows, one.values, other.values);
  return other.values;
}

// Transforms along the first dimension: the `i`th line of the gathered values, of `inner`.
template <const auto& M>
KOLO_VECTOR_INLINE Line<M.rows> spread_line(const float* gathered, std::int64_t i,
                                            std::int64_t inner) {
  Line<M.columns> line;
  for (std::size_t k = 0; k < M.columns; ++k)
    line.at[k] = loaded(gathered + (static_cast<std::int64_t>(k) * inner + i) * lanes);
  Line<M.rows> result;
  product<M>(line, result);
  return result;
}

// The transforms of winograd.h, for vectors that were included before.

using winograd::Algorithm;
using winograd::Collect;
using winograd::Offsets;
using winograd::Spread;

// The first dimension last, as its vectors are put away.
template <const auto& M, typename T>
KOLO_VECTOR void spread_by(const T* const* at, std::int64_t channels, const Offsets& offsets,
                           float* coefficients) {
  const int others = offsets.dimensions() - 1;
  const auto inner = power(M.rows, others);
  Room one, other;
  for (std::int64_t channel = 0; channel < channels; channel += lanes) {
    const float* const gathered = gather<M>(at, channel, others, one, other);
    for (std::int64_t i = 0; i < inner; ++i) {
      const auto result = spread_line<M>(gathered, i, inner);
      float* const to = coefficients + offsets.rest(i) + channel;
      for (std::size_t k = 0; k < M.rows; ++k)
        store(to + offsets.first(static_cast<std::int64_t>(k)), result.at[k]);
    }
  }
}

// Destination of a vector that was collected.
struct Put {
  const float* bias = nullptr;
  bool is_added = false;

  template <typename T>
  KOLO_VECTOR_INLINE void operator()(T* at, std::int64_t channel, Vector values) const {
    if (at == nullptr) return;
    if (is_added) values += loaded(at + channel);
    if (bias != nullptr) values += loaded(bias + channel);
    store(at + channel, values);
  }
};

template <const auto& M, typename T>
KOLO_VECTOR void collect_by(const float* coefficients, const Offsets& offsets,
                            std::int64_t channels, const Put& put, T* const* at) {
  constexpr auto columns = static_cast<std::int64_t>(M.columns),
                 rows = static_cast<std::int64_t>(M.rows);
  const int others = offsets.dimensions() - 1;
  Room one, other;
  for (std::int64_t channel = 0; channel < channels; channel += lanes) {
    const auto inner = power(columns, others);
    for (std::int64_t i = 0; i < inner; ++i) {
      const float* const from = coefficients + offsets.rest(i) + channel;
      Line<M.columns> line;
      for (std::int64_t k = 0; k < columns; ++k) line.at[k] = loaded(from + offsets.first(k));
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
void spread_with(Spread what, const T* const* at, std::int64_t channels, const Offsets& offsets,
                 float* coefficients) {
  switch (what) {
    case Spread::inputs:
      return spread_by<Matrices::inputs>(at, channels, offsets, coefficients);
    case Spread::output_gradients:
      return spread_by<Transforms<Matrices>::of_outputs>(at, channels, offsets, coefficients);
    case Spread::taps:
      return spread_by<Matrices::taps>(at, channels, offsets, coefficients);
  }
}

template <typename T>
void spread(Algorithm algorithm, Spread what, const T* const* at, std::int64_t channels,
            const Offsets& offsets, float* coefficients) {
  if (algorithm == Algorithm::four_of_three_taps)
    return spread_with<FourOfThreeTaps>(what, at, channels, offsets, coefficients);
  return spread_with<TwoOfFourTaps>(what, at, channels, offsets, coefficients);
}

template <typename Matrices, typename T>
void collect_with(Collect what, const float* coefficients, const Offsets& offsets,
                  std::int64_t channels, const float* bias, T* const* at) {
  switch (what) {
    case Collect::outputs:
      return collect_by<Matrices::outputs>(coefficients, offsets, channels, {bias, false}, at);
    case Collect::input_gradients:
      return collect_by<Transforms<Matrices>::of_inputs>(coefficients, offsets, channels,
                                                         {bias, true}, at);
    case Collect::tap_gradients:
      return collect_by<Transforms<Matrices>::of_taps>(coefficients, offsets, channels,
                                                       {bias, false}, at);
  }
}

template <typename T>
void collect(Algorithm algorithm, Collect what, const float* coefficients, const Offsets& offsets,
             std::int64_t channels, const float* bias, T* const* at) {
  if (algorithm == Algorithm::four_of_three_taps)
    return collect_with<FourOfThreeTaps>(what, coefficients, offsets, channels, bias, at);
  return collect_with<TwoOfFourTaps>(what, coefficients, offsets, channels, bias, at);
}

}  // namespace kolo::KOLO_VECTORS
