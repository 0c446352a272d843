#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include "kolo/nn/network.h"

// A peer of training inside simulations: what programs that train in C++ write themselves, and what
// TorchFort does on processors.
namespace kolo::peers {

// Forward, backward, then for each parameter one blocking MPI_Allreduce of its gradient and a
// division by the number of ranks, another for the loss, and LibTorch's Adam. LibTorch and MPI
// alone.
class PerTensorAllReduce {
 public:
  // The parameters become rank 0's. The communicator must outlive it. Collective.
  PerTensorAllReduce(MPI_Comm communicator, std::shared_ptr<TensorsNetwork> network);
  ~PerTensorAllReduce();
  PerTensorAllReduce(const PerTensorAllReduce&) = delete;
  PerTensorAllReduce& operator=(const PerTensorAllReduce&) = delete;

  // One step on these values, which are read where they lie; `shape` is the batch's. Returns the
  // mean loss over the ranks. Collective.
  float train(std::span<const float> input, std::span<const float> target,
              std::span<const std::int64_t> shape);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kolo::peers
