#pragma once

namespace kolo::testing {

// Calls of MPI's that a program and the libraries in it have made by the names MPI_..., which this
// program defines; its own are made by the names PMPI_..., and are not counted.
struct MpiCounts {
  int calls = 0;
  int on_world = 0;            // that were given MPI_COMM_WORLD
  int by_other_threads = 0;    // than the first to call
  int begins_and_ends = 0;     // MPI_Init..., MPI_Finalize, MPI_Abort
  int communicators_made = 0;  // by this rank
  int communicators_present = 0;
  int others_present = 0;  // operations and keys of attributes
};

[[nodiscard]] MpiCounts mpi_counts();

}  // namespace kolo::testing
