#pragma once

#include <torch/types.h>

namespace kolo {

// max_pool2d(relu(input), 2) of [N, C, H, W], which is also relu(max_pool2d(input, 2)): in one pass
// forward and one backward for float32 on CPUs in channels-last layout (C > 1), by LibTorch
// otherwise. Where the largest values of a window are alike, the first gets the gradient; where
// they are not positive none does.
[[nodiscard]] torch::Tensor max_pool_relu(const torch::Tensor& input);

}  // namespace kolo
