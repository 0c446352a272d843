#pragma once

#include "kolo/comm/communicator.h"
#include "kolo/comm/mpi.h"

namespace kolo {

// All ranks of the job that kolo has started as processes of this machine, without MPI: `kolo train
// -n 2`, `kolo run --launcher processes`. Their shared memory has no name, so nothing is left of it
// however they end. Handles may live to the end of the process. A rank that aborts ends its process
// with that status, and kolo ends the others. In a fork of the process every call is a StateError.
//
// Collective; from the main thread. Environment variables and rank 0's options count as in
// mpi_communicator(), but for shared_memory, thread_level, largest_count and launcher_check.
// InputError: kolo has not started this process so. Error: the ranks can't share memory.
[[nodiscard]] Communicator process_communicator(const MpiOptions& options = {});

// All ranks of the job, however they were started: process_communicator() where kolo has started
// them as processes, otherwise mpi_communicator().
[[nodiscard]] Communicator job_communicator(const MpiOptions& options = {});

}  // namespace kolo
