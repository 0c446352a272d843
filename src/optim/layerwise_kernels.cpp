#include <array>
#include <cstddef>

#include "kolo/base/vectorize.h"
#include "optim/kernels.h"

namespace kolo::optim {

namespace {

// Accumulators side by side: enough for the widest vectors, and one order of additions for all.
constexpr std::size_t strands = 16;

using Strands = std::array<double, strands>;

template <typename T>
inline void add_squares(Strands& sums, const T* __restrict values) {
  for (std::size_t strand = 0; strand < strands; ++strand) {
    const auto value = static_cast<double>(values[strand]);
    sums[strand] += value * value;
  }
}

inline double total_of(Strands& sums) {
  for (std::size_t half = strands / 2; half > 0; half /= 2) {
    for (std::size_t strand = 0; strand < half; ++strand) sums[strand] += sums[strand + half];
  }
  return sums[0];
}

template <typename T>
inline double sum_of_squares_loop(const T* __restrict values, std::size_t size) {
  Strands sums{};
  std::size_t i = 0;
  for (; i + strands <= size; i += strands) add_squares(sums, values + i);
  std::array<T, strands> rest{};
  for (std::size_t strand = 0; i < size; ++i, ++strand) rest[strand] = values[i];
  add_squares(sums, rest.data());
  return total_of(sums);
}

// The constants come by value, as in kernels.cpp.
template <typename T>
inline void lamb_directions_loop(const T* __restrict parameters, const T* __restrict gradients,
                                 T* __restrict mean, T* __restrict mean_square,
                                 T* __restrict directions, std::size_t size, LambConstants<T> c) {
  for (std::size_t i = 0; i < size; ++i)
    directions[i] = lamb_moments(parameters[i], gradients[i], mean[i], mean_square[i], c);
}

}  // namespace

KOLO_VECTORIZE
double sum_of_squares(const float* values, std::size_t size) {
  return sum_of_squares_loop(values, size);
}

KOLO_VECTORIZE
double sum_of_squares(const double* values, std::size_t size) {
  return sum_of_squares_loop(values, size);
}

KOLO_VECTORIZE
void lamb_directions(const float* parameters, const float* gradients, float* mean,
                     float* mean_square, float* directions, std::size_t size,
                     const LambConstants<float>& constants) {
  lamb_directions_loop(parameters, gradients, mean, mean_square, directions, size, constants);
}

KOLO_VECTORIZE
void lamb_directions(const double* parameters, const double* gradients, double* mean,
                     double* mean_square, double* directions, std::size_t size,
                     const LambConstants<double>& constants) {
  lamb_directions_loop(parameters, gradients, mean, mean_square, directions, size, constants);
}

}  // namespace kolo::optim
