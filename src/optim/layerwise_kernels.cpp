#include "optim/layerwise_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kolo/base/vectorize.h"

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
inline double sum_of_squares(const T* __restrict values, std::size_t size) {
  Strands sums{};
  std::size_t i = 0;
  for (; i + strands <= size; i += strands) add_squares(sums, values + i);
  std::array<T, strands> rest{};
  for (std::size_t strand = 0; i < size; ++i, ++strand) rest[strand] = values[i];
  add_squares(sums, rest.data());
  return total_of(sums);
}

template <typename T, bool has_momentum>
inline void lars_loop(T* __restrict parameters, const T* __restrict gradients,
                      T* __restrict momentum, std::size_t size, LarsConstants<T> c) {
  for (std::size_t i = 0; i < size; ++i) {
    T step = c.rate * (gradients[i] + c.weight_decay * parameters[i]);
    if constexpr (has_momentum) {
      step += c.momentum * momentum[i];
      momentum[i] = step;
    }
    parameters[i] -= step;
  }
}

template <typename T>
inline void lars_loops(T* parameters, const T* gradients, T* momentum, std::size_t size,
                       const LarsConstants<T>& constants) {
  if (momentum != nullptr) {
    lars_loop<T, true>(parameters, gradients, momentum, size, constants);
  } else {
    lars_loop<T, false>(parameters, gradients, nullptr, size, constants);
  }
}

template <typename T>
inline T lamb_direction(T parameter, T mean, T mean_square, const LambConstants<T>& c) {
  return mean * c.mean_scale / (std::sqrt(mean_square) * c.root_scale + c.epsilon) +
         c.weight_decay * parameter;
}

// Block by block, so that the directions need not be kept: in a block they lie in the nearest
// cache, from where their squares are added up.
template <typename T>
inline SquareSums lamb_moments_loop(const T* __restrict parameters, const T* __restrict gradients,
                                    T* __restrict mean, T* __restrict mean_square, std::size_t size,
                                    LambConstants<T> c) {
  constexpr std::size_t block = 64 * strands;
  std::array<T, block> directions;
  Strands parameter_sums{}, direction_sums{};
  std::array<T, strands> rest;
  for (std::size_t begin = 0; begin < size; begin += block) {
    const std::size_t count = std::min(block, size - begin);
    for (std::size_t i = 0; i < count; ++i) {
      const T gradient = gradients[begin + i];
      const T first = c.beta1 * mean[begin + i] + c.one_minus_beta1 * gradient;
      const T second = c.beta2 * mean_square[begin + i] + c.one_minus_beta2 * gradient * gradient;
      mean[begin + i] = first;
      mean_square[begin + i] = second;
      directions[i] = lamb_direction(parameters[begin + i], first, second, c);
    }
    std::size_t i = 0;
    for (; i + strands <= count; i += strands) {
      add_squares(parameter_sums, parameters + begin + i);
      add_squares(direction_sums, directions.data() + i);
    }
    if (i == count) continue;
    rest.fill(0);
    std::copy(parameters + begin + i, parameters + begin + count, rest.begin());
    add_squares(parameter_sums, rest.data());
    rest.fill(0);
    std::copy(directions.data() + i, directions.data() + count, rest.begin());
    add_squares(direction_sums, rest.data());
  }
  return {total_of(parameter_sums), total_of(direction_sums)};
}

template <typename T>
inline void lamb_step_loop(T* __restrict parameters, const T* __restrict mean,
                           const T* __restrict mean_square, std::size_t size, T rate,
                           LambConstants<T> c) {
  for (std::size_t i = 0; i < size; ++i)
    parameters[i] -= rate * lamb_direction(parameters[i], mean[i], mean_square[i], c);
}

}  // namespace

KOLO_VECTORIZE
SquareSums square_sums(const float* parameters, const float* gradients, std::size_t size) {
  return {sum_of_squares(parameters, size), sum_of_squares(gradients, size)};
}

KOLO_VECTORIZE
SquareSums square_sums(const double* parameters, const double* gradients, std::size_t size) {
  return {sum_of_squares(parameters, size), sum_of_squares(gradients, size)};
}

KOLO_VECTORIZE
void lars(float* parameters, const float* gradients, float* momentum, std::size_t size,
          const LarsConstants<float>& constants) {
  lars_loops(parameters, gradients, momentum, size, constants);
}

KOLO_VECTORIZE
void lars(double* parameters, const double* gradients, double* momentum, std::size_t size,
          const LarsConstants<double>& constants) {
  lars_loops(parameters, gradients, momentum, size, constants);
}

KOLO_VECTORIZE
SquareSums lamb_moments(const float* parameters, const float* gradients, float* mean,
                        float* mean_square, std::size_t size,
                        const LambConstants<float>& constants) {
  return lamb_moments_loop(parameters, gradients, mean, mean_square, size, constants);
}

KOLO_VECTORIZE
SquareSums lamb_moments(const double* parameters, const double* gradients, double* mean,
                        double* mean_square, std::size_t size,
                        const LambConstants<double>& constants) {
  return lamb_moments_loop(parameters, gradients, mean, mean_square, size, constants);
}

KOLO_VECTORIZE
void lamb_step(float* parameters, const float* mean, const float* mean_square, std::size_t size,
               float rate, const LambConstants<float>& constants) {
  lamb_step_loop(parameters, mean, mean_square, size, rate, constants);
}

KOLO_VECTORIZE
void lamb_step(double* parameters, const double* mean, const double* mean_square, std::size_t size,
               double rate, const LambConstants<double>& constants) {
  lamb_step_loop(parameters, mean, mean_square, size, rate, constants);
}

}  // namespace kolo::optim
