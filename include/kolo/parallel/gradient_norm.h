#pragma once

#include <vector>

#include <torch/types.h>

// Clipping of gradients by their norm, as torch::nn::utils::clip_grad_norm_ does it. The same bits
// on ranks that have the same gradients, whatever their numbers of threads.
namespace kolo {

// Factor that gives gradients of this norm one of at most maximum_norm: maximum_norm / (norm +
// 1e-6) where that is below 1; otherwise, and for a norm that is not finite, 1. Error for a
// maximum_norm that is not 0 or more.
[[nodiscard]] double clip_factor(double norm, double maximum_norm);
// The same for a norm of one float64 on a device, without waiting for it.
[[nodiscard]] torch::Tensor clip_factor(const torch::Tensor& norm, double maximum_norm);

// Scales the gradients of the parameters, dense or sparse, each counted once, so that all of them
// together have a 2-norm of at most maximum_norm, and returns the norm before. After the gradients
// are averaged (GradientReducer::finish()); without communication. One pass over the gradients, and
// one more when they are scaled. Error for gradients on several devices. By other norms
// torch::nn::utils::clip_grad_norm_() clips them, then too.
double clip_gradient_norm(const std::vector<torch::Tensor>& parameters, double maximum_norm);

}  // namespace kolo
