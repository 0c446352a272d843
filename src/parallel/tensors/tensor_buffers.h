#pragma once

#include <vector>

#include <torch/types.h>

namespace kolo {

// Those of several tensors that have one dtype, to travel in one buffer.
struct FusedTensors {
  std::vector<std::size_t> indices;  // in the list they came from
  torch::Tensor flat;                // contiguous, one-dimensional
};

// By dtype, in the order in which the dtypes first appear. A contiguous tensor that is alone of its
// dtype is not copied: flat is a view of it.
[[nodiscard]] std::vector<FusedTensors> fuse_by_type(torch::TensorList tensors);

// Copies the values in flat back into the tensors, as far as they are not the same memory.
void unfuse(const FusedTensors& fused, torch::TensorList tensors);

// The same memory as a contiguous tensor with at least one dimension; a copy where it is not
// contiguous.
[[nodiscard]] torch::Tensor as_rows(const torch::Tensor& tensor);

}  // namespace kolo
