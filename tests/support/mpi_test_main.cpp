// main() of tests under mpirun: PROGRAM [funneled|serialized] [--gtest_...]. Every rank runs every
// test; the job fails when one rank does.
#include <cstdio>
#include <string>

#include <gtest/gtest.h>

#include "comm/mpi/mpi_header.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const std::string level = argc > 1 ? argv[1] : "";
  const int wanted = level == "funneled"     ? MPI_THREAD_FUNNELED
                     : level == "serialized" ? MPI_THREAD_SERIALIZED
                                             : MPI_THREAD_MULTIPLE;
  int provided = 0, rank = 0;
  MPI_Init_thread(&argc, &argv, wanted, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) {
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  }
  int failed = RUN_ALL_TESTS();
  if (failed != 0) std::fprintf(stderr, "rank %d failed\n", rank);
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}
