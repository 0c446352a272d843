#pragma once

#include <torch/types.h>

namespace kolo {

// Tensors of images, [N, C, H, W] by shape, that lie as [C, H, W, N] in memory.

[[nodiscard]] bool has_batch_last(const torch::Tensor& images);
// The tensor itself where it lies so.
[[nodiscard]] torch::Tensor with_batch_last(const torch::Tensor& images);
[[nodiscard]] torch::Tensor empty_with_batch_last(at::IntArrayRef shape,
                                                  const torch::TensorOptions& options);

}  // namespace kolo
