#pragma once

#include <torch/types.h>

#include "kernels/convolution_kernel.h"

namespace kolo {

// Sets outputs and gradients of inputs to 0 where direct products are 0: at positions whose taps
// meet nothing but vectors of zeros. Minimal algorithms subtract sums of neighbours, which leaves
// rounding errors there: a ReLU lets half of them pass, and an optimizer that divides by the size
// of a gradient (Adam) makes whole steps of them.
//
// Tensors are channels last, dense, float32 or bfloat16, channels a multiple of 16; results that
// are not finite stay so.

// Outputs become `bias`, or 0 where that is null.
void restore_zero_outputs(const ConvolutionGeometry& geometry, const torch::Tensor& input,
                          const float* bias, const torch::Tensor& output);
void restore_zero_input_gradients(const ConvolutionGeometry& geometry,
                                  const torch::Tensor& output_gradient,
                                  const torch::Tensor& input_gradient);

// Sets the gradient of a weight to 0 where its input or output gradient is 0 wherever its tap
// connects the two, in all samples: dead channels, taps that meet only padding, channels that are
// never there together. Minimal algorithms leave rounding errors there, as above.
//
// `gradients` are [taps, inputs, outputs]; those that are not finite stay so. Channels are a
// multiple of 16. Only for processors with vectors of 8 floats or more.
void restore_zeros(const ConvolutionGeometry& geometry, const torch::Tensor& input,
                   const torch::Tensor& output_gradient, float* gradients);

}  // namespace kolo
