#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/comm/data_type.h"

namespace kolo {

// Error for a dtype that has no DataType (complex, quantized).
[[nodiscard]] DataType data_type_of(torch::ScalarType type);
[[nodiscard]] torch::ScalarType scalar_type_of(DataType type);

// The memory of a contiguous tensor in CPU memory; Error for any other.
[[nodiscard]] Buffer buffer_of(const torch::Tensor& contiguous);

// Collectives on tensors of any strides, any shape (also without elements or without dimensions)
// and every dtype of DataType, in CPU memory. A tensor that is not contiguous costs a copy each
// way. Nothing here is seen by autograd (differentiable_collectives.h is).
//
// Every rank calls the same ones in the same order, with the same dtype and shape unless said
// otherwise. All block; Communicator::enqueue() runs them in the background.
//
// Several tensors travel as one collective for each dtype among them, through a buffer that they
// are copied into and out of; every rank passes as many, in the same order.

// Every element is multiplied by `prescale` before the reduction and by `postscale` after it.
// Integers are multiplied in double and rounded towards zero, as Horovod does (so those beyond 2^53
// lose digits); booleans can't be scaled (Error).
struct ReduceOptions {
  ReduceOp op = ReduceOp::sum;
  double prescale = 1;
  double postscale = 1;
  CallOptions call = {};
};

// Reduces a tensor in place.
void all_reduce(const Communicator& communicator, const torch::Tensor& tensor,
                const ReduceOptions& options);
void all_reduce(const Communicator& communicator, const torch::Tensor& tensor,
                ReduceOp op = ReduceOp::sum);
void all_reduce(const Communicator& communicator, torch::TensorList tensors,
                const ReduceOptions& options = {});

// Returns the reduction in a new tensor.
[[nodiscard]] torch::Tensor all_reduced(const Communicator& communicator,
                                        const torch::Tensor& tensor,
                                        const ReduceOptions& options = {});

// Writes root's values into every rank's tensor.
void broadcast(const Communicator& communicator, const torch::Tensor& tensor, int root = 0,
               CallOptions call = {});
void broadcast(const Communicator& communicator, torch::TensorList tensors, int root = 0,
               CallOptions call = {});

// Concatenates along the first dimension, in the order of ranks: [n0 + n1 + ..., ...] from [n0,
// ...], [n1, ...] ... A tensor without dimensions counts as [1]. The first dimensions may differ,
// also be 0. The shapes are exchanged first (128 bytes per rank); where dtypes or the other
// dimensions differ, Error on every rank that names both.
[[nodiscard]] torch::Tensor all_gather(const Communicator& communicator,
                                       const torch::Tensor& tensor, CallOptions call = {});
[[nodiscard]] std::vector<torch::Tensor> all_gather(const Communicator& communicator,
                                                    torch::TensorList tensors,
                                                    CallOptions call = {});

// This rank's rows of the reduction: [n / size(), ...] from everybody's [n, ...]. Where the ranks
// don't divide n, the first n % size() ranks get one row more (and the collective costs a padded
// copy). A tensor without dimensions counts as [1].
[[nodiscard]] torch::Tensor reduce_scatter(const Communicator& communicator,
                                           const torch::Tensor& tensor,
                                           const ReduceOptions& options);
[[nodiscard]] torch::Tensor reduce_scatter(const Communicator& communicator,
                                           const torch::Tensor& tensor,
                                           ReduceOp op = ReduceOp::sum);
[[nodiscard]] std::vector<torch::Tensor> reduce_scatter(const Communicator& communicator,
                                                        torch::TensorList tensors,
                                                        const ReduceOptions& options = {});

struct ReceivedRows {
  torch::Tensor tensor;              // the rows sent here, in the order of ranks
  std::vector<std::int64_t> splits;  // how many rows each rank has sent
};

// Rank r gets the next splits[r] rows of this rank's tensor [n, ...]; no splits: n / size() each.
// The splits and shapes are exchanged first. Where a rank's splits don't add up to its n, or
// dtypes or the dimensions after the first differ, Error on every rank.
[[nodiscard]] ReceivedRows all_to_all(const Communicator& communicator, const torch::Tensor& tensor,
                                      std::span<const std::int64_t> splits = {},
                                      CallOptions call = {});

// The sum over virtual ranks of a few numbers each, in the order of kolo/layout/virtual_ranks.h:
// the same bits on any number of ranks, and on all of them. `mine`: [this rank's parts, m], float32
// or float64; returns [m]. Costs an all-gather.
[[nodiscard]] torch::Tensor ordered_total(const Communicator& communicator, int virtual_ranks,
                                          const torch::Tensor& mine);

}  // namespace kolo
