#pragma once

#include <torch/types.h>

namespace kolo {

// Memory for the gradient of a parameter, of its sizes and strides: where the gradient is wanted in
// the end, if somebody offers that (kolo/base/gradient_destination.h), or new. In backward, once
// for each gradient.
[[nodiscard]] torch::Tensor destination_of_gradient(const torch::Tensor& parameter);

}  // namespace kolo
