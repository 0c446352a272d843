#pragma once

#include <torch/types.h>

namespace kolo {

// A convolution's weight, [outputs, inputs, kernel ...] (transposed: [inputs, outputs, kernel ...]
// of the layer), in memory in the order [kernel ..., second, first]: each tap's matrix is whole.
// Shape and values stay.
[[nodiscard]] torch::Tensor taps_first(const torch::Tensor& weight);

[[nodiscard]] bool is_taps_first(const torch::Tensor& weight);

}  // namespace kolo
