#pragma once

#include <cstdint>
#include <string>

#include "kolo/comm/communicator.h"
#include "kolo/comm/mpi.h"

namespace c10 {
struct Device;
}

// The first two of the eight steps from a training loop to a parallel one;
// docs/library/training-loops.md has all of them.
namespace kolo {

// Step 1: all ranks of the job, with what the environment asks for (the watch, checked calls, a
// timeline: docs/library/training-loops.md): those that kolo has started as processes of this
// machine, or MPI's. A program that nobody started as one of several is one rank. Collective; call
// it once, at the beginning of main(). Errors as process_communicator() and mpi_communicator().
[[nodiscard]] Communicator initialize(const MpiOptions& options = {});

// Step 2: the device that this rank computes on, and this process set up for it.
//
// With CUDA, and a device that the process sees, it is one of them: by the rank's number on its
// node, or the only one that the launcher lets it see. Model and batches are to be
// taken there (to(device)). Two ranks on one device are an InputError on all ranks, unless
// KOLO_SHARE_DEVICES=1 is set: they work, in turns, and their collectives go through the host's
// memory.
//
// Otherwise it is the CPU. In either case LibTorch gets as many threads as this rank's part of its
// node's cores, so that ranks don't stand in each other's way; OMP_NUM_THREADS overrules it, and
// OMP_THREAD_LIMIT is kept to. The C library keeps a step's freed memory for the next
// (keep_freed_memory_of_steps()). InputError: OMP_NUM_THREADS is no number of threads that a
// process can have. Collective.
c10::Device pin_device(const Communicator& communicator);

namespace parallel {
// LibTorch computes with so many threads: with OMP_THREAD_LIMIT where that is less, and with no
// fewer than that, whatever else OpenMP's variables say.
void set_compute_threads(int threads);
}  // namespace parallel

// The CUDA devices that kolo and LibTorch can use in this process, or why there are none.
[[nodiscard]] DeviceCount cuda_devices();
// Name by which a device is sold: "NVIDIA H100 80GB HBM3". Empty for the host.
[[nodiscard]] std::string device_name(const c10::Device& device);
// The CUDA device that is this rank's, which becomes this thread's current one; the CPU where there
// is none. As pin_device() chooses it; `may_share`: two ranks may have the same one. Collective.
[[nodiscard]] c10::Device take_device(const Communicator& communicator, bool may_share = false);

// Random numbers of its own for every rank: dropout, noise and augmentation differ between ranks,
// as they would between the parts of one large batch, and are the same in every run of as many
// ranks. Seeds LibTorch's generator; returns the rank's seed, for other generators of the program.
// Rank 0's is `seed` itself, so that its weights are those of a program on one rank; the others get
// them by broadcast_state(). Use it in the place of torch::manual_seed(), which on all ranks with
// one seed gives all of them the same masks and noise. Local.
std::uint64_t seed_ranks(const Communicator& communicator, std::uint64_t seed);

}  // namespace kolo
