#pragma once

#include <cstddef>

// The loops of the optimizers, compiled for several vector units. The constants are computed once
// per slice in double and rounded to the type of the buffers, as torch does with its scalars.
namespace kolo::optim {

template <typename T>
struct SgdConstants {
  T rate;
  T gradient_decay;             // times the parameter, added to the gradient
  T keep;                       // factor on the parameter; 1 unless decay is decoupled
  T momentum, gradient_weight;  // momentum buffer = momentum * buffer + gradient_weight * gradient
  bool first_step;              // momentum buffer = gradient, whatever the buffer held
  bool nesterov;
};

template <typename T>
struct AdamConstants {
  T beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon;
  T step_size;       // the rate with the bias correction of the first moment
  T root_scale;      // the bias correction of the second moment's square root
  T gradient_decay;  // times the parameter, added to the gradient; 0 when decay is decoupled
  T keep;            // factor on the parameter; 1 unless decay is decoupled
};

void sgd(float* parameters, const float* gradients, std::size_t size,
         const SgdConstants<float>& constants);
void sgd(double* parameters, const double* gradients, std::size_t size,
         const SgdConstants<double>& constants);

void sgd_momentum(float* parameters, const float* gradients, float* momentum, std::size_t size,
                  const SgdConstants<float>& constants);
void sgd_momentum(double* parameters, const double* gradients, double* momentum, std::size_t size,
                  const SgdConstants<double>& constants);

// With the largest second moments so far (AMSGrad), unless that is null.
void adam(float* parameters, const float* gradients, float* mean, float* mean_square,
          float* largest, std::size_t size, const AdamConstants<float>& constants);
void adam(double* parameters, const double* gradients, double* mean, double* mean_square,
          double* largest, std::size_t size, const AdamConstants<double>& constants);

// RMSprop, Adagrad, Adadelta, Adamax and Nadam.

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

// LARS and LAMB (layerwise_kernels.cpp).

template <typename T>
struct LarsConstants {
  T rate;  // times the layer's scale
  T weight_decay, momentum;
};

template <typename T>
struct LambConstants {
  T beta1, one_minus_beta1, beta2, one_minus_beta2, epsilon, weight_decay;
  T mean_scale, root_scale;  // the bias corrections of the first moment, and of the root
};

// Added up in double, in one order whatever the processor.
double sum_of_squares(const float* values, std::size_t size);
double sum_of_squares(const double* values, std::size_t size);

// No momentum when that is null.
void lars(float* parameters, const float* gradients, float* momentum, std::size_t size,
          const LarsConstants<float>& constants);
void lars(double* parameters, const double* gradients, double* momentum, std::size_t size,
          const LarsConstants<double>& constants);

// Brings the moments up to date, and writes the directions that follow from them; the parameters
// stay.
void lamb_directions(const float* parameters, const float* gradients, float* mean,
                     float* mean_square, float* directions, std::size_t size,
                     const LambConstants<float>& constants);
void lamb_directions(const double* parameters, const double* gradients, double* mean,
                     double* mean_square, double* directions, std::size_t size,
                     const LambConstants<double>& constants);

// `rate` times the layer's scale.
void lamb_step(float* parameters, const float* mean, const float* mean_square, std::size_t size,
               float rate, const LambConstants<float>& constants);
void lamb_step(double* parameters, const double* mean, const double* mean_square, std::size_t size,
               double rate, const LambConstants<double>& constants);

}  // namespace kolo::optim
