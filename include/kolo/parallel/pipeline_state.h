#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/parameter_arena.h"

// Tensors that the ranks of a pipeline have parts of, by name, to and from one rank: for
// checkpoints, which hold a whole network under its names, so that any layout of ranks can go on
// from them. They travel one at a time, so nobody needs memory for more than one besides its own.
//
// Collective over the ranks of one pipeline (mesh.axis(MeshAxis::pipe)), also where only that of
// rank 0 has anything to do with files. Names are different on all of them.
namespace kolo {

// A tensor that one rank of a pipeline owns.
struct OwnedTensor {
  std::string name;
  int rank = 0;  // of the pipeline
  std::vector<std::int64_t> sizes;
  torch::ScalarType type = torch::kFloat;
};

// All ranks' tensors, rank by rank, in the order in which each lists its own. Error on all ranks
// where two have the same name.
[[nodiscard]] std::vector<OwnedTensor> owned_tensors(const Communicator& pipe,
                                                     std::span<const NamedTensor> mine);

// Rank 0 is given all of them, in that order, as contiguous tensors in host memory that are its own
// to keep.
void collect_tensors(const Communicator& pipe, std::span<const NamedTensor> mine,
                     const std::function<void(const OwnedTensor&, torch::Tensor)>& take);

// Inverse of collect_tensors(): rank 0 gives each tensor by name, and its owner copies the values.
// Error, on rank 0, for a tensor of another shape; types are converted.
void hand_out_tensors(const Communicator& pipe, std::span<const NamedTensor> mine,
                      const std::function<torch::Tensor(const OwnedTensor&)>& give);

// A module's parameters and buffers, as the two functions take them.
[[nodiscard]] std::vector<NamedTensor> named_tensors_of(const torch::nn::Module& module);

}  // namespace kolo
