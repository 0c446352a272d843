#include "support/mpi_world.h"

#include <cstdio>

#include "comm/mpi/mpi_calls.h"

namespace kolo::testing {

std::optional<MpiWorld> begin_mpi(const std::string& level) {
  if (level != "" && level != "funneled" && level != "serialized") {
    std::fprintf(stderr, "--mpi=%s: expected funneled or serialized\n", level.c_str());
    return std::nullopt;
  }
  const int wanted = level == "funneled"     ? MPI_THREAD_FUNNELED
                     : level == "serialized" ? MPI_THREAD_SERIALIZED
                                             : MPI_THREAD_MULTIPLE;
  int provided = 0;
  MpiWorld world;
  MPI_Init_thread(nullptr, nullptr, wanted, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world.ranks);
  return world;
}

int end_mpi(int status) {
  MPI_Allreduce(MPI_IN_PLACE, &status, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return status;
}

}  // namespace kolo::testing
