#pragma once

#include <cstddef>

// The loops of RMSprop, Adagrad, Adadelta, Adamax and Nadam; see kernels.h.
namespace kolo::optim {

// What goes around every step: the gradient's weight decay, and the factor on the parameter.
template <typename T>
struct DecayConstants {
  T in_gradient, keep;
};

template <typename T>
struct RmspropConstants {
  DecayConstants<T> decay;
  T rate, rho, one_minus_rho, momentum;
  T epsilon_in_root, epsilon_to_root;  // one of the two is 0
};

template <typename T>
struct AdagradConstants {
  DecayConstants<T> decay;
  T rate, epsilon_in_root, epsilon_to_root;
};

template <typename T>
struct AdadeltaConstants {
  DecayConstants<T> decay;
  T rate, rho, one_minus_rho, epsilon;
};

template <typename T>
struct AdamaxConstants {
  DecayConstants<T> decay;
  T beta1, one_minus_beta1, beta2, epsilon;
  T step_size;  // the rate with the bias correction
};

template <typename T>
struct NadamConstants {
  DecayConstants<T> decay;
  T rate, beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon;
  T mean_weight, gradient_weight;  // of the two parts of the step
  T root_scale;                    // the bias correction of the second moment's square root
};

// Null for a momentum or a mean that isn't wanted.
void rmsprop(float* parameters, const float* gradients, float* mean_square, float* momentum,
             float* mean, std::size_t size, const RmspropConstants<float>& constants);
void rmsprop(double* parameters, const double* gradients, double* mean_square, double* momentum,
             double* mean, std::size_t size, const RmspropConstants<double>& constants);

void adagrad(float* parameters, const float* gradients, float* sum, std::size_t size,
             const AdagradConstants<float>& constants);
void adagrad(double* parameters, const double* gradients, double* sum, std::size_t size,
             const AdagradConstants<double>& constants);

void adadelta(float* parameters, const float* gradients, float* mean_square, float* mean_delta,
              std::size_t size, const AdadeltaConstants<float>& constants);
void adadelta(double* parameters, const double* gradients, double* mean_square, double* mean_delta,
              std::size_t size, const AdadeltaConstants<double>& constants);

void adamax(float* parameters, const float* gradients, float* mean, float* norm, std::size_t size,
            const AdamaxConstants<float>& constants);
void adamax(double* parameters, const double* gradients, double* mean, double* norm,
            std::size_t size, const AdamaxConstants<double>& constants);

void nadam(float* parameters, const float* gradients, float* mean, float* mean_square,
           std::size_t size, const NadamConstants<float>& constants);
void nadam(double* parameters, const double* gradients, double* mean, double* mean_square,
           std::size_t size, const NadamConstants<double>& constants);

}  // namespace kolo::optim
