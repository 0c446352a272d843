#pragma once

#include <optional>
#include <string>

namespace kolo::testing {

// Ranks of the job that mpirun has started.
struct MpiWorld {
  int rank = 0;
  int ranks = 1;
};

// Initializes MPI with the thread level funneled, serialized or, where it is empty, multiple.
// Returns nothing where that fails, and says why on stderr.
[[nodiscard]] std::optional<MpiWorld> begin_mpi(const std::string& level);

// Finalizes MPI. Returns the highest status of all ranks.
[[nodiscard]] int end_mpi(int status);

}  // namespace kolo::testing
