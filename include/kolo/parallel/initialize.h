#pragma once

#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/comm/mpi.h"

// The first two of the eight steps from a training loop to a parallel one; docs/library.md has all
// of them.
namespace kolo {

// Step 1: all ranks of the job, with what the environment asks for (the watch, checked calls, a
// timeline: docs/library.md). A program that no launcher started is one rank. Collective; call it
// once, at the beginning of main(). Errors as mpi_communicator().
[[nodiscard]] Communicator initialize(const MpiOptions& options = {});

// Step 2: the device that this rank computes on, and this process set up for it. That is the CPU:
// LibTorch gets as many threads as this rank's share of its node's cores, so that ranks don't stand
// in each other's way; OMP_NUM_THREADS overrules it. Collective.
torch::Device pin_device(const Communicator& communicator);

}  // namespace kolo
