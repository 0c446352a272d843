#pragma once

#include <span>

#include <torch/torch.h>

#include "kolo/comm/communicator.h"

// Collectives on tensors of any strides, any shape (also without elements or without dimensions)
// and every dtype of DataType, in CPU memory. A tensor that is not contiguous costs a copy each
// way. Every rank passes the same shape and dtype, unless said otherwise; all of these block.
namespace kolo {

// Error for a dtype that has no DataType (complex, quantised).
[[nodiscard]] DataType data_type_of(torch::ScalarType type);
[[nodiscard]] torch::ScalarType scalar_type_of(DataType type);

// The memory of a contiguous tensor.
[[nodiscard]] Buffer buffer_of(const torch::Tensor& contiguous);

// In place.
void all_reduce(const Communicator& communicator, const torch::Tensor& tensor,
                ReduceOp op = ReduceOp::sum);
void broadcast(const Communicator& communicator, const torch::Tensor& tensor, int root = 0);

// Concatenated along the first dimension: [size() * n, ...] from everybody's [n, ...]; a tensor
// without dimensions counts as [1].
[[nodiscard]] torch::Tensor all_gather(const Communicator& communicator,
                                       const torch::Tensor& tensor);

// [n, ...] from everybody's [size() * n, ...]: this rank's part of the reduction.
[[nodiscard]] torch::Tensor reduce_scatter(const Communicator& communicator,
                                           const torch::Tensor& tensor,
                                           ReduceOp op = ReduceOp::sum);

// Several tensors, one after the other.
void broadcast(const Communicator& communicator, std::span<const torch::Tensor> tensors,
               int root = 0);

}  // namespace kolo
