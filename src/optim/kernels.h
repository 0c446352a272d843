#pragma once

#include <cstddef>

#include "kolo/optim/flat_optimizer.h"
#include "optim/element_steps.h"

// The loops of the optimizers on processors, compiled for several vector units.
namespace kolo::optim {

// A step on each element of a slice: one function for each kind of step.
#define KOLO_DECLARE_STEPS(T, ...) \
  void run_steps(const __VA_ARGS__& step, const FlatSlice<T>& slice);
KOLO_FOR_EACH_STEP(KOLO_DECLARE_STEPS)
#undef KOLO_DECLARE_STEPS

// For the scale of a layer (layerwise_kernels.cpp).

// Added up in double, in one order whatever the processor.
double sum_of_squares(const float* values, std::size_t size);
double sum_of_squares(const double* values, std::size_t size);

// Brings the moments up to date, and writes the directions that follow from them; the parameters
// stay.
void lamb_directions(const float* parameters, const float* gradients, float* mean,
                     float* mean_square, float* directions, std::size_t size,
                     const LambConstants<float>& constants);
void lamb_directions(const double* parameters, const double* gradients, double* mean,
                     double* mean_square, double* directions, std::size_t size,
                     const LambConstants<double>& constants);

}  // namespace kolo::optim
