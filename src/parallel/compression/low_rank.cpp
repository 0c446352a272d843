#include "parallel/compression/low_rank.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kolo/base/vectorize.h"

namespace kolo::parallel {

namespace {

// Sums in as many strands, so that the order of additions is the same for every width of vectors.
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

template <typename T>
inline void add_scaled(T* __restrict to, const T* __restrict from, T scale, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) to[i] += scale * from[i];
}

template <typename T>
inline void multiply_loop(LowRank<T> f, const T* error) {
  for (std::int64_t row = 0; row < f.rows; ++row) {
    T* const matrix = f.matrix + row * f.columns;
    if (error != nullptr) add_scaled(matrix, error + row * f.columns, T(1), f.columns);
    for (std::int64_t k = 0; k < f.rank; ++k)
      f.left[k * f.rows + row] = dot<T>(matrix, f.right + k * f.columns, f.columns);
  }
}

template <typename T>
inline void multiply_transposed_loop(LowRank<T> f) {
  std::fill_n(f.right, f.rank * f.columns, T(0));
  for (std::int64_t row = 0; row < f.rows; ++row) {
    for (std::int64_t k = 0; k < f.rank; ++k)
      add_scaled(f.right + k * f.columns, f.matrix + row * f.columns, f.left[k * f.rows + row],
                 f.columns);
  }
}

template <typename T>
inline void reconstruct_loop(LowRank<T> f, T* error) {
  for (std::int64_t row = 0; row < f.rows; ++row) {
    T* const matrix = f.matrix + row * f.columns;
    if (error != nullptr) std::copy_n(matrix, f.columns, error + row * f.columns);
    std::fill_n(matrix, f.columns, T(0));
    for (std::int64_t k = 0; k < f.rank; ++k)
      add_scaled(matrix, f.right + k * f.columns, f.left[k * f.rows + row], f.columns);
    if (error != nullptr) add_scaled(error + row * f.columns, matrix, T(-1), f.columns);
  }
}

template <typename T>
inline void orthogonalise_loop(LowRank<T> f, double epsilon) {
  for (std::int64_t k = 0; k < f.rank; ++k) {
    T* const column = f.left + k * f.rows;
    const double before = std::sqrt(dot<double>(column, column, f.rows));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t j = 0; j < k; ++j) {
        const T* const other = f.left + j * f.rows;
        add_scaled(column, other, static_cast<T>(-dot<double>(other, column, f.rows)), f.rows);
      }
    }
    const double length = std::sqrt(dot<double>(column, column, f.rows));
    const bool is_dependent = !(length > epsilon * before) || length == 0;
    for (std::int64_t i = 0; i < f.rows; ++i)
      column[i] = is_dependent ? T(0) : static_cast<T>(column[i] / length);
  }
}

}  // namespace

KOLO_VECTORIZE
void multiply(const LowRank<float>& factors, const float* error) {
  multiply_loop(factors, error);
}

KOLO_VECTORIZE
void multiply(const LowRank<double>& factors, const double* error) {
  multiply_loop(factors, error);
}

KOLO_VECTORIZE
void multiply_transposed(const LowRank<float>& factors) {
  multiply_transposed_loop(factors);
}

KOLO_VECTORIZE
void multiply_transposed(const LowRank<double>& factors) {
  multiply_transposed_loop(factors);
}

KOLO_VECTORIZE
void reconstruct(const LowRank<float>& factors, float* error) {
  reconstruct_loop(factors, error);
}

KOLO_VECTORIZE
void reconstruct(const LowRank<double>& factors, double* error) {
  reconstruct_loop(factors, error);
}

KOLO_VECTORIZE
void orthogonalise(const LowRank<float>& factors, double epsilon) {
  orthogonalise_loop(factors, epsilon);
}

KOLO_VECTORIZE
void orthogonalise(const LowRank<double>& factors, double epsilon) {
  orthogonalise_loop(factors, epsilon);
}

}  // namespace kolo::parallel
