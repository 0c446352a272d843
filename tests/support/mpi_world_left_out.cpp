// Stand-in for builds without MPI.
#include <cstdio>

#include "support/mpi_world.h"

namespace kolo::testing {

std::optional<MpiWorld> begin_mpi(const std::string& /*level*/) {
  std::fprintf(stderr, "--mpi: this program is built without MPI (KOLO_MPI)\n");
  return std::nullopt;
}

int end_mpi(int status) {
  return status;
}

}  // namespace kolo::testing
