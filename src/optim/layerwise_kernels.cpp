#include <array>
#include <cmath>

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

template <typename T>
inline void lamb_directions_loop(const T* __restrict parameters, const T* __restrict gradients,
                                 T* __restrict mean, T* __restrict mean_square,
                                 T* __restrict directions, std::size_t size, LambConstants<T> c) {
  for (std::size_t i = 0; i < size; ++i) {
    mean[i] = c.beta1 * mean[i] + c.one_minus_beta1 * gradients[i];
    mean_square[i] = c.beta2 * mean_square[i] + c.one_minus_beta2 * gradients[i] * gradients[i];
    directions[i] = lamb_direction(parameters[i], mean[i], mean_square[i], c);
  }
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
double sum_of_squares(const float* values, std::size_t size) {
  return sum_of_squares_loop(values, size);
}

KOLO_VECTORIZE
double sum_of_squares(const double* values, std::size_t size) {
  return sum_of_squares_loop(values, size);
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
