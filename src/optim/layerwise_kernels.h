#pragma once

#include <cstddef>

// The loops of LARS and LAMB; see kernels.h.
namespace kolo::optim {

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
