#pragma once

#include <vector>

#include <torch/types.h>

namespace kolo {

// Clips gradients (dense or sparse) as GradientReducer::clip_gradient_norm() says.
// Added up in double, in an order that depends on nothing but the sizes: LibTorch's norm depends on
// the number of threads too, and the ranks' may differ.
double clip_norm(const std::vector<torch::Tensor>& gradients, double maximum_norm,
                 double norm_type);

}  // namespace kolo
