#pragma once

#include <torch/types.h>

#include "kernels/loops.h"

// For loops over the values of float32 and bfloat16 tensors of the host.
namespace kolo {

[[nodiscard]] inline bool has_loop_values(const torch::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return tensor.device().is_cpu() && (type == torch::kFloat || type == torch::kBFloat16) &&
         tensor.layout() == torch::kStrided;
}

// Calls work.operator()<T>() for the type of the tensor's values.
template <typename Work>
void with_values(const torch::Tensor& tensor, const Work& work) {
  if (tensor.scalar_type() == torch::kBFloat16)
    work.template operator()<BFloat16>();
  else
    work.template operator()<float>();
}

template <typename T>
T* values_of(const torch::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

}  // namespace kolo
