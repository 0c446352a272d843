#pragma once

#include <cstdint>

#include <torch/types.h>

#include "kolo/comm/communicator.h"

// Functions on the way into and out of layers whose weights are cut among the ranks of a group
// (kolo/tensor_parallel/parallel_linear.h). Here all ranks of the group compute one and
// the same loss, of which each calls backward(): "replicated" is what is the same on all of them,
// values and gradients. (Shoeybi et al., arXiv:1909.08053, section 3; on parts of a sequence
// Korthikanti et al., arXiv:2205.05198, section 4.2.2.)
//
// That differs from kolo/parallel/differentiable_collectives.h, which differentiates the sum of all
// ranks' losses: all_reduce() there sums in backward too, and gradients of a replicated loss would
// come out too large by the number of ranks.
//
// The functions come in pairs, each the other's backward. All ranks of the group go through forward
// and backward of the same ones in the same order; backward blocks in the thread that runs it. Use
// a communicator with an order of its own, such as DeviceMesh::axis(MeshAxis::tensor). Floating
// dtypes, also on LibTorch's devices; every rank's tensor has the same shape. `dimension` may count
// from the end. With one rank the tensor itself is returned. Second derivatives work.
namespace kolo {

// Identity; backward: the sum of the ranks' gradients. Before what each rank computes of its own
// from a replicated tensor.
[[nodiscard]] torch::Tensor copy_to_group(const Communicator& group, const torch::Tensor& tensor);
// The sum of the ranks' tensors, replicated; backward: identity. After what is a sum over parts.
[[nodiscard]] torch::Tensor reduce_from_group(const Communicator& group,
                                              const torch::Tensor& tensor);

// This rank's part of a replicated tensor; backward: all ranks' parts. InputError where the ranks
// don't divide the dimension.
[[nodiscard]] torch::Tensor scatter_to_group(const Communicator& group, const torch::Tensor& tensor,
                                             std::int64_t dimension = -1);
// All ranks' parts one after another, replicated; backward: this rank's part.
[[nodiscard]] torch::Tensor gather_from_group(const Communicator& group,
                                              const torch::Tensor& tensor,
                                              std::int64_t dimension = -1);

// This rank's part of the sum of the ranks' tensors: reduce_from_group() to who goes on with a part
// only. Backward: all ranks' parts. InputError where the ranks don't divide the dimension.
[[nodiscard]] torch::Tensor reduce_scatter_from_group(const Communicator& group,
                                                      const torch::Tensor& tensor,
                                                      std::int64_t dimension);
// All ranks' parts one after another, before what each rank computes of its own from them.
// Backward: this rank's part of the sum.
[[nodiscard]] torch::Tensor all_gather_to_group(const Communicator& group,
                                                const torch::Tensor& tensor,
                                                std::int64_t dimension);

}  // namespace kolo
