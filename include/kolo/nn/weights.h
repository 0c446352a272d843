#pragma once

#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

// The weights of any network: random ones to begin with, and a penalty on large ones.
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

// Which parameters are to be kept small, and by how much. Those of two or more dimensions are: the
// weights of convolutions, linear layers and the like, in any network. Biases and the scales and
// shifts of normalizations, which have one dimension, are not.

// Whether weights like this tensor are decayed.
[[nodiscard]] bool is_decayed(const torch::Tensor& parameter);

// For each parameter, in the order of parameters(), whether it is decayed: for decoupled decay, and
// for LARS and LAMB, which scale the steps of just these parameters.
[[nodiscard]] std::vector<bool> decayed_parameters(const torch::nn::Module& module);

// factor * sum of w^2 over all decayed parameters that require gradients, a scalar of their dtype
// to add to the loss, as Keras's regularizers.l2(factor) on every kernel. Backward adds 2 factor w
// to each gradient. Costs a pass over the weights forward, and two backward; an optimizer's coupled
// weight decay of 2 factor on the same parameters takes the same steps for nothing, except that the
// loss shown lacks the penalty.
//
// InputError for a factor that is negative or not finite. 0 for a module without such parameters.
[[nodiscard]] torch::Tensor l2_penalty(const torch::nn::Module& module, double factor);

}  // namespace kolo
