#pragma once

#include <span>
#include <string>

#include <torch/types.h>

// Tensors in messages.
namespace kolo {

using TensorSpan = std::span<const torch::Tensor>;

// "[4, 2] of Float"
[[nodiscard]] std::string shape_of(const torch::Tensor& tensor);

// "[4, 2] of Float, [4] of Long"; "nothing" for none.
[[nodiscard]] std::string shapes_of(TensorSpan tensors);

}  // namespace kolo
