#include "optim/kernels.h"

#include <cmath>

#include "kolo/base/vectorize.h"

namespace kolo::optim {

namespace {

// The constants come by value: through a reference the compiler would have to assume that a store
// to the buffers changes them. Conditions on them leave the loops, one loop for each case.

template <typename T>
inline void sgd_loop(T* __restrict parameters, const T* __restrict gradients, std::size_t size,
                     SgdConstants<T> constants) {
  for (std::size_t i = 0; i < size; ++i) {
    const T gradient = gradients[i] + constants.gradient_decay * parameters[i];
    parameters[i] = constants.keep * parameters[i] - constants.rate * gradient;
  }
}

template <typename T, bool first_step, bool nesterov>
inline void momentum_loop(T* __restrict parameters, const T* __restrict gradients,
                          T* __restrict momentum, std::size_t size, SgdConstants<T> constants) {
  for (std::size_t i = 0; i < size; ++i) {
    const T gradient = gradients[i] + constants.gradient_decay * parameters[i];
    const T buffer = first_step
                         ? gradient
                         : constants.momentum * momentum[i] + constants.gradient_weight * gradient;
    momentum[i] = buffer;
    parameters[i] = constants.keep * parameters[i] -
                    constants.rate * (nesterov ? gradient + constants.momentum * buffer : buffer);
  }
}

template <typename T>
inline void momentum_loops(T* parameters, const T* gradients, T* momentum, std::size_t size,
                           const SgdConstants<T>& constants) {
  if (constants.first_step && constants.nesterov) {
    momentum_loop<T, true, true>(parameters, gradients, momentum, size, constants);
  } else if (constants.first_step) {
    momentum_loop<T, true, false>(parameters, gradients, momentum, size, constants);
  } else if (constants.nesterov) {
    momentum_loop<T, false, true>(parameters, gradients, momentum, size, constants);
  } else {
    momentum_loop<T, false, false>(parameters, gradients, momentum, size, constants);
  }
}

template <typename T, bool amsgrad>
inline void adam_loop(T* __restrict parameters, const T* __restrict gradients, T* __restrict mean,
                      T* __restrict mean_square, T* __restrict largest, std::size_t size,
                      AdamConstants<T> c) {
  for (std::size_t i = 0; i < size; ++i) {
    const T gradient = gradients[i] + c.gradient_decay * parameters[i];
    mean[i] = c.beta1 * mean[i] + c.one_minus_beta1 * gradient;
    mean_square[i] = c.beta2 * mean_square[i] + c.one_minus_beta2 * gradient * gradient;
    T square = mean_square[i];
    if constexpr (amsgrad) {
      square = largest[i] > square ? largest[i] : square;
      largest[i] = square;
    }
    const T denominator = std::sqrt(square) * c.root_scale + c.epsilon;
    parameters[i] = c.keep * parameters[i] - c.step_size * (mean[i] / denominator);
  }
}

template <typename T>
inline void adam_loops(T* parameters, const T* gradients, T* mean, T* mean_square, T* largest,
                       std::size_t size, const AdamConstants<T>& constants) {
  if (largest != nullptr) {
    adam_loop<T, true>(parameters, gradients, mean, mean_square, largest, size, constants);
  } else {
    adam_loop<T, false>(parameters, gradients, mean, mean_square, nullptr, size, constants);
  }
}

}  // namespace

KOLO_VECTORIZE
void sgd(float* parameters, const float* gradients, std::size_t size,
         const SgdConstants<float>& constants) {
  sgd_loop(parameters, gradients, size, constants);
}

KOLO_VECTORIZE
void sgd(double* parameters, const double* gradients, std::size_t size,
         const SgdConstants<double>& constants) {
  sgd_loop(parameters, gradients, size, constants);
}

KOLO_VECTORIZE
void sgd_momentum(float* parameters, const float* gradients, float* momentum, std::size_t size,
                  const SgdConstants<float>& constants) {
  momentum_loops(parameters, gradients, momentum, size, constants);
}

KOLO_VECTORIZE
void sgd_momentum(double* parameters, const double* gradients, double* momentum, std::size_t size,
                  const SgdConstants<double>& constants) {
  momentum_loops(parameters, gradients, momentum, size, constants);
}

KOLO_VECTORIZE
void adam(float* parameters, const float* gradients, float* mean, float* mean_square,
          float* largest, std::size_t size, const AdamConstants<float>& constants) {
  adam_loops(parameters, gradients, mean, mean_square, largest, size, constants);
}

KOLO_VECTORIZE
void adam(double* parameters, const double* gradients, double* mean, double* mean_square,
          double* largest, std::size_t size, const AdamConstants<double>& constants) {
  adam_loops(parameters, gradients, mean, mean_square, largest, size, constants);
}

}  // namespace kolo::optim
