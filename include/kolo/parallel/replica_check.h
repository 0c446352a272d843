#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/parameter_arena.h"

namespace kolo {

// A checksum of a tensor's bits in the order of its elements, at the speed of memory. A change of
// one element always changes it; other different tensors have the same with a chance of about
// 2^-64. Tensors of the same values differ when one has -0 for 0.
[[nodiscard]] std::uint64_t checksum_of(const torch::Tensor& tensor);

// Finds replicas that have drifted apart: every few steps the ranks compare checksums of their
// parameters. In the good case that is one pass over the parameters and an all-gather of 16 bytes.
// Ranks that have joined are left out.
//
// Parameters only: buffers such as running means differ between ranks in good order. It keeps the
// tensors' handles, so what optimizers and checkpoints do to them in place is seen; make it after
// the arena, which moves the parameters.
class ReplicaCheck {
 public:
  // Error when every_steps is below 1.
  ReplicaCheck(Communicator communicator, const ParameterArena& arena, std::int64_t every_steps);
  // With the parameters that don't require gradients.
  ReplicaCheck(Communicator communicator, const torch::nn::Module& module,
               std::int64_t every_steps);

  // Compares when `step`, counted from 1 and the same on all ranks, is a multiple of every_steps.
  void after_step(std::int64_t step) const;

  // Compares now. Collective. Error on every rank, with the same message, when replicas differ: it
  // names the parameters and, of each, the ranks that differ from the majority (from rank 0, where
  // there is none). `when`, for example "after step 200", is put into it.
  void compare(const std::string& when) const;

 private:
  struct Replicated {
    std::string name;
    torch::Tensor tensor;
  };

  ReplicaCheck(Communicator communicator, std::int64_t every_steps);
  [[noreturn]] void report(const std::vector<std::int64_t>& checksums,
                           const std::vector<std::size_t>& present, const std::string& when) const;

  Communicator communicator_;
  std::int64_t every_steps_ = 1;
  std::vector<Replicated> parameters_;
};

}  // namespace kolo
