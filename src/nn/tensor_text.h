#pragma once

#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <torch/types.h>

// Tensors in messages.
namespace kolo {

using TensorSpan = std::span<const torch::Tensor>;

// "[4, 2] of Float"
[[nodiscard]] inline std::string shape_of(const torch::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return fmt::format("[{}] of {}", fmt::join(tensor.sizes().vec(), ", "),
                     torch::toString(tensor.scalar_type()));
}

// "[4, 2] of Float, [4] of Long"; "nothing" for none.
[[nodiscard]] inline std::string shapes_of(TensorSpan tensors) {
  if (tensors.empty()) return "nothing";
  std::vector<std::string> texts;
  for (const auto& tensor : tensors) texts.push_back(shape_of(tensor));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace kolo
