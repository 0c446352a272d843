#pragma once

#include <torch/types.h>

namespace kolo::parallel {

// Whether a gradient lies where its view in the arena does. It need not be the same tensor: a
// module's zero_grad() puts a detached one in its place.
[[nodiscard]] inline bool is_in_place(const torch::Tensor& gradient, const torch::Tensor& view) {
  return gradient.defined() && gradient.layout() == torch::kStrided &&
         gradient.data_ptr() == view.data_ptr();
}

}  // namespace kolo::parallel
