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

namespace {

// The constants come by value, as in kernels.cpp. Comparisons are written so that a gradient that
// is not a number reaches the parameter.

template <typename T, bool has_momentum, bool is_centered>
inline void rmsprop_loop(T* __restrict parameters, const T* __restrict gradients,
                         T* __restrict mean_square, T* __restrict momentum, T* __restrict mean,
                         std::size_t size, RmspropConstants<T> c) {
  for (std::size_t i = 0; i < size; ++i) {
    const T gradient = gradients[i] + c.decay.in_gradient * parameters[i];
    mean_square[i] = c.rho * mean_square[i] + c.one_minus_rho * gradient * gradient;
    T square = mean_square[i];
    if constexpr (is_centered) {
      mean[i] = c.rho * mean[i] + c.one_minus_rho * gradient;
      square -= mean[i] * mean[i];
      square = square < 0 ? T(0) : square;  // by rounding
    }
    T step = c.rate * gradient / (std::sqrt(square + c.epsilon_in_root) + c.epsilon_to_root);
    if constexpr (has_momentum) {
      step += c.momentum * momentum[i];
      momentum[i] = step;
    }
    parameters[i] = c.decay.keep * parameters[i] - step;
  }
}

template <typename T>
inline void rmsprop_loops(T* parameters, const T* gradients, T* mean_square, T* momentum, T* mean,
                          std::size_t size, const RmspropConstants<T>& constants) {
  if (momentum != nullptr && mean != nullptr) {
    rmsprop_loop<T, true, true>(parameters, gradients, mean_square, momentum, mean, size,
                                constants);
  } else if (momentum != nullptr) {
    rmsprop_loop<T, true, false>(parameters, gradients, mean_square, momentum, nullptr, size,
                                 constants);
  } else if (mean != nullptr) {
    rmsprop_loop<T, false, true>(parameters, gradients, mean_square, nullptr, mean, size,
                                 constants);
  } else {
    rmsprop_loop<T, false, false>(parameters, gradients, mean_square, nullptr, nullptr, size,
                                  constants);
  }
}

template <typename T>
inline void adagrad_loop(T* __restrict parameters, const T* __restrict gradients, T* __restrict sum,
                         std::size_t size, AdagradConstants<T> c) {
  for (std::size_t i = 0; i < size; ++i) {
    const T gradient = gradients[i] + c.decay.in_gradient * parameters[i];
    sum[i] += gradient * gradient;
    const T denominator = std::sqrt(sum[i] + c.epsilon_in_root) + c.epsilon_to_root;
    parameters[i] = c.decay.keep * parameters[i] - c.rate * gradient / denominator;
  }
}

template <typename T>
inline void adadelta_loop(T* __restrict parameters, const T* __restrict gradients,
                          T* __restrict mean_square, T* __restrict mean_delta, std::size_t size,
                          AdadeltaConstants<T> c) {
  for (std::size_t i = 0; i < size; ++i) {
    const T gradient = gradients[i] + c.decay.in_gradient * parameters[i];
    mean_square[i] = c.rho * mean_square[i] + c.one_minus_rho * gradient * gradient;
    const T delta =
        std::sqrt(mean_delta[i] + c.epsilon) / std::sqrt(mean_square[i] + c.epsilon) * gradient;
    mean_delta[i] = c.rho * mean_delta[i] + c.one_minus_rho * delta * delta;
    parameters[i] = c.decay.keep * parameters[i] - c.rate * delta;
  }
}

template <typename T>
inline void adamax_loop(T* __restrict parameters, const T* __restrict gradients, T* __restrict mean,
                        T* __restrict norm, std::size_t size, AdamaxConstants<T> c) {
  for (std::size_t i = 0; i < size; ++i) {
    const T gradient = gradients[i] + c.decay.in_gradient * parameters[i];
    mean[i] = c.beta1 * mean[i] + c.one_minus_beta1 * gradient;
    const T before = c.beta2 * norm[i];
    const T now = std::abs(gradient);
    norm[i] = before > now ? before : now;
    parameters[i] = c.decay.keep * parameters[i] - c.step_size * (mean[i] / (norm[i] + c.epsilon));
  }
}

template <typename T>
inline void nadam_loop(T* __restrict parameters, const T* __restrict gradients, T* __restrict mean,
                       T* __restrict mean_square, std::size_t size, NadamConstants<T> c) {
  for (std::size_t i = 0; i < size; ++i) {
    const T gradient = gradients[i] + c.decay.in_gradient * parameters[i];
    mean[i] = c.beta1 * mean[i] + c.one_minus_beta1 * gradient;
    mean_square[i] = c.beta2 * mean_square[i] + c.one_minus_beta2 * gradient * gradient;
    const T direction = c.mean_weight * mean[i] + c.gradient_weight * gradient;
    const T denominator = std::sqrt(mean_square[i]) * c.root_scale + c.epsilon;
    parameters[i] = c.decay.keep * parameters[i] - c.rate * (direction / denominator);
  }
}

}  // namespace

KOLO_VECTORIZE
void rmsprop(float* parameters, const float* gradients, float* mean_square, float* momentum,
             float* mean, std::size_t size, const RmspropConstants<float>& constants) {
  rmsprop_loops(parameters, gradients, mean_square, momentum, mean, size, constants);
}

KOLO_VECTORIZE
void rmsprop(double* parameters, const double* gradients, double* mean_square, double* momentum,
             double* mean, std::size_t size, const RmspropConstants<double>& constants) {
  rmsprop_loops(parameters, gradients, mean_square, momentum, mean, size, constants);
}

KOLO_VECTORIZE
void adagrad(float* parameters, const float* gradients, float* sum, std::size_t size,
             const AdagradConstants<float>& constants) {
  adagrad_loop(parameters, gradients, sum, size, constants);
}

KOLO_VECTORIZE
void adagrad(double* parameters, const double* gradients, double* sum, std::size_t size,
             const AdagradConstants<double>& constants) {
  adagrad_loop(parameters, gradients, sum, size, constants);
}

KOLO_VECTORIZE
void adadelta(float* parameters, const float* gradients, float* mean_square, float* mean_delta,
              std::size_t size, const AdadeltaConstants<float>& constants) {
  adadelta_loop(parameters, gradients, mean_square, mean_delta, size, constants);
}

KOLO_VECTORIZE
void adadelta(double* parameters, const double* gradients, double* mean_square, double* mean_delta,
              std::size_t size, const AdadeltaConstants<double>& constants) {
  adadelta_loop(parameters, gradients, mean_square, mean_delta, size, constants);
}

KOLO_VECTORIZE
void adamax(float* parameters, const float* gradients, float* mean, float* norm, std::size_t size,
            const AdamaxConstants<float>& constants) {
  adamax_loop(parameters, gradients, mean, norm, size, constants);
}

KOLO_VECTORIZE
void adamax(double* parameters, const double* gradients, double* mean, double* norm,
            std::size_t size, const AdamaxConstants<double>& constants) {
  adamax_loop(parameters, gradients, mean, norm, size, constants);
}

KOLO_VECTORIZE
void nadam(float* parameters, const float* gradients, float* mean, float* mean_square,
           std::size_t size, const NadamConstants<float>& constants) {
  nadam_loop(parameters, gradients, mean, mean_square, size, constants);
}

KOLO_VECTORIZE
void nadam(double* parameters, const double* gradients, double* mean, double* mean_square,
           std::size_t size, const NadamConstants<double>& constants) {
  nadam_loop(parameters, gradients, mean, mean_square, size, constants);
}

}  // namespace kolo::optim
