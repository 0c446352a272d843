#include "nn/tensor_text.h"

#include <vector>

#include <fmt/format.h>

namespace kolo {

std::string shape_of(const torch::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return fmt::format("[{}] of {}", fmt::join(tensor.sizes().vec(), ", "),
                     torch::toString(tensor.scalar_type()));
}

std::string shapes_of(TensorSpan tensors) {
  if (tensors.empty()) return "nothing";
  std::vector<std::string> texts;
  for (const auto& tensor : tensors) texts.push_back(shape_of(tensor));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace kolo
