// A program that has an MPI of its own, from C++, and communicates with kolo in between; its
// communicator lives until main() ends, after MPI_Finalize.
#include <cstdio>

#include <mpi.h>

#include "kolo/comm/mpi.h"

int main(int argc, char** argv) {
  int provided = 0, rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto world = kolo::mpi_communicator();
  const int sum = kolo::all_reduce_value(world, rank + 1);
  if (rank == 0) std::printf("simulation on %d ranks: %d\n", world.size(), sum);
  return MPI_Finalize();
}
