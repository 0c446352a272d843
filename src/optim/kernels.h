#pragma once

#include <cstddef>

// The loops of the optimizers, compiled for several vector units. The constants are computed once a
// slice in double and rounded to the type of the buffers, as torch does with its scalars.
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

}  // namespace kolo::optim
