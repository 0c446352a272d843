#include "parallel/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kolo/base/vectorize.h"

namespace kolo::parallel {

namespace {

// Accumulators side by side: enough for the widest vectors, and one order of additions for all.
constexpr std::int64_t strands = 32;

template <typename Sum, typename T>
inline Sum dot(const T* __restrict a, const T* __restrict b, std::int64_t size) {
  std::array<Sum, strands> sums{};
  std::int64_t i = 0;
  for (; i + strands <= size; i += strands) {
    for (std::int64_t strand = 0; strand < strands; ++strand)
      sums[static_cast<std::size_t>(strand)] +=
          static_cast<Sum>(a[i + strand]) * static_cast<Sum>(b[i + strand]);
  }
  for (std::int64_t strand = 0; i < size; ++i, ++strand)
    sums[static_cast<std::size_t>(strand)] += static_cast<Sum>(a[i]) * static_cast<Sum>(b[i]);
  for (std::size_t half = strands / 2; half > 0; half /= 2) {
    for (std::size_t strand = 0; strand < half; ++strand) sums[strand] += sums[strand + half];
  }
  return sums[0];
}

}  // namespace

template <typename T>
KOLO_VECTORIZE double sum_of_squares(std::span<const T> values) {
  return dot<double>(values.data(), values.data(), std::ssize(values));
}

template <typename T>
KOLO_VECTORIZE void add(std::span<T> values, std::span<T> other) {
  T* __restrict const to = values.data();
  const T* __restrict const from = other.data();
  for (std::size_t i = 0; i < values.size(); ++i) to[i] += from[i];
}

template <typename T>
KOLO_VECTORIZE void scale(std::span<T> values, double factor) {
  const auto by = static_cast<T>(factor);
  for (T& value : values) value *= by;
}

// Looks at the answer once a block only: a loop that can be left early is not vectorized.
template <typename Word>
KOLO_VECTORIZE bool has_all_bits(std::span<const Word> values, Word mask) {
  constexpr std::size_t block = 4096;
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    Word found = 0;
    for (const Word word : values.subspan(begin, std::min(block, values.size() - begin)))
      found |= static_cast<Word>((word & mask) == mask ? 1 : 0);
    if (found != 0) return true;
  }
  return false;
}

template double sum_of_squares(std::span<const float>);
template double sum_of_squares(std::span<const double>);
template void add(std::span<float>, std::span<float>);
template void add(std::span<double>, std::span<double>);
template void scale(std::span<float>, double);
template void scale(std::span<double>, double);
template bool has_all_bits(std::span<const std::uint64_t>, std::uint64_t);
template bool has_all_bits(std::span<const std::uint32_t>, std::uint32_t);
template bool has_all_bits(std::span<const std::uint16_t>, std::uint16_t);

KOLO_VECTORIZE
std::uint64_t sum_of_mixed(std::span<const std::int32_t> words) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto mixed = (std::uint64_t{i} << 32) + static_cast<std::uint64_t>(std::int64_t{words[i]});
    for (const std::uint64_t factor : mixing_factors) {
      mixed *= factor;
      mixed ^= mixed >> 32;
    }
    sum += mixed;
  }
  return sum;
}

namespace {

inline void add_scaled(float* __restrict to, const float* __restrict from, float scale,
                       std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) to[i] += scale * from[i];
}

}  // namespace

KOLO_VECTORIZE
void multiply(const LowRank& f, const float* error) {
  for (std::int64_t row = 0; row < f.rows; ++row) {
    float* const matrix = f.matrix + row * f.columns;
    add_scaled(matrix, error + row * f.columns, 1, f.columns);
    for (std::int64_t k = 0; k < f.rank; ++k)
      f.left[k * f.rows + row] = dot<float>(matrix, f.right + k * f.columns, f.columns);
  }
}

KOLO_VECTORIZE
void multiply_transposed(const LowRank& f) {
  std::fill_n(f.right, f.rank * f.columns, 0.F);
  for (std::int64_t row = 0; row < f.rows; ++row) {
    for (std::int64_t k = 0; k < f.rank; ++k)
      add_scaled(f.right + k * f.columns, f.matrix + row * f.columns, f.left[k * f.rows + row],
                 f.columns);
  }
}

KOLO_VECTORIZE
void reconstruct(const LowRank& f, float* error) {
  for (std::int64_t row = 0; row < f.rows; ++row) {
    float* const matrix = f.matrix + row * f.columns;
    std::copy_n(matrix, f.columns, error + row * f.columns);
    std::fill_n(matrix, f.columns, 0.F);
    for (std::int64_t k = 0; k < f.rank; ++k)
      add_scaled(matrix, f.right + k * f.columns, f.left[k * f.rows + row], f.columns);
    add_scaled(error + row * f.columns, matrix, -1, f.columns);
  }
}

KOLO_VECTORIZE
void orthogonalise(const LowRank& f) {
  for (std::int64_t k = 0; k < f.rank; ++k) {
    float* const column = f.left + k * f.rows;
    const double before = std::sqrt(dot<double>(column, column, f.rows));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t j = 0; j < k; ++j) {
        const float* const other = f.left + j * f.rows;
        add_scaled(column, other, static_cast<float>(-dot<double>(other, column, f.rows)), f.rows);
      }
    }
    const double length = std::sqrt(dot<double>(column, column, f.rows));
    const bool is_dependent = !(length > 1e-6 * before) || length == 0;
    for (std::int64_t i = 0; i < f.rows; ++i)
      column[i] = is_dependent ? 0 : static_cast<float>(column[i] / length);
  }
}

}  // namespace kolo::parallel
