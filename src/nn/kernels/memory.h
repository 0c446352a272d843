#pragma once

#include <torch/types.h>

// How the tensors of convolutions lie in memory, and where gradients are to lie.
namespace kolo {

// Tensors of images, [N, C, H, W] by shape, that lie as [C, H, W, N] in memory.

[[nodiscard]] bool has_batch_last(const torch::Tensor& images);
// The tensor itself where it lies so.
[[nodiscard]] torch::Tensor with_batch_last(const torch::Tensor& images);
[[nodiscard]] torch::Tensor empty_with_batch_last(at::IntArrayRef shape,
                                                  const torch::TensorOptions& options);

// A convolution's weight, [outputs, inputs, kernel ...] (transposed: [inputs, outputs, kernel ...]
// of the layer), in memory in the order [kernel ..., second, first]: each tap's matrix is whole.
// Shape and values stay.
[[nodiscard]] torch::Tensor taps_first(const torch::Tensor& weight);

[[nodiscard]] bool is_taps_first(const torch::Tensor& weight);

// Memory for the gradient of a parameter, of its sizes and strides: where the gradient is wanted in
// the end, if somebody offers that (kolo/base/gradient_destination.h), or new. In backward, once
// for each gradient.
[[nodiscard]] torch::Tensor destination_of_gradient(const torch::Tensor& parameter);

}  // namespace kolo
