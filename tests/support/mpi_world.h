#pragma once

#include <optional>
#include <string>

namespace kolo::testing {

// All ranks of the job that mpirun has started.
struct MpiWorld {
  int rank = 0;
  int ranks = 1;
};

// Initializes MPI with the thread level `level`: funneled, serialized or, where it is empty,
// multiple. Says on stderr why it can't, and returns nothing then.
[[nodiscard]] std::optional<MpiWorld> begin_mpi(const std::string& level);

// The highest status of all ranks. Finalizes MPI.
[[nodiscard]] int end_mpi(int status);

}  // namespace kolo::testing
