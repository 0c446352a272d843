#pragma once

#include <torch/types.h>

namespace kolo {

// Random weights, in place and not recorded for backward, from torch's default generator. Weights
// are laid out as torch has them: [outputs, inputs, ...kernel], floating.

// Normal with mean 0 and standard deviation sqrt(2 / fan in), where the normal is cut off at two of
// its own standard deviations (what lies outside is drawn again) and widened so that the deviation
// after the cut is that; Keras's he_normal. Fan in is inputs times kernel elements. (He et al.,
// arXiv:1502.01852.)
void he_normal(const torch::Tensor& weight);

// Uniform within +-sqrt(6 / (fan in + fan out)); Keras's glorot_uniform, torch's xavier_uniform.
// (Glorot and Bengio, 2010.)
void glorot_uniform(const torch::Tensor& weight);

}  // namespace kolo
