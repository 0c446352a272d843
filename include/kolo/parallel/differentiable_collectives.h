#pragma once

#include <cstdint>
#include <span>

#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/tensor_collectives.h"

// Collectives that autograd sees: their backward is a collective too. What is differentiated is the
// sum of all ranks' losses. Tensors of floating dtypes; results are new tensors.
//
// Every rank must go through forward and backward of the same ones, in the same order. Backward
// blocks in the thread that runs it; where a GradientReducer is at work in the same backward, use a
// communicator of their own (communicator.split(0)). Second derivatives work. Shapes, splits and
// errors as in tensor_collectives.h.
namespace kolo::differentiable {

// Sum or average, with factors; Error for other operations. Backward: the same of the gradient.
[[nodiscard]] torch::Tensor all_reduce(const Communicator& communicator,
                                       const torch::Tensor& tensor,
                                       const ReduceOptions& options = {});

// First dimensions may differ. Backward: this rank's rows of the summed gradient.
[[nodiscard]] torch::Tensor all_gather(const Communicator& communicator,
                                       const torch::Tensor& tensor);

// Backward: the sum of the gradients on root, zeros elsewhere.
[[nodiscard]] torch::Tensor broadcast(const Communicator& communicator, const torch::Tensor& tensor,
                                      int root = 0);

// Sum or average, with factors; Error for other operations. Backward: the gradients gathered.
[[nodiscard]] torch::Tensor reduce_scatter(const Communicator& communicator,
                                           const torch::Tensor& tensor,
                                           const ReduceOptions& options = {});

// Backward: the gradients go back to where the rows came from.
[[nodiscard]] ReceivedRows all_to_all(const Communicator& communicator, const torch::Tensor& tensor,
                                      std::span<const std::int64_t> splits = {});

}  // namespace kolo::differentiable
