// start_ranks RANKS PROGRAM [ARGUMENT...]: ranks that are processes of this machine, without MPI,
// more than it has cores if need be; ends with the job's status. What tests/support/mpirun is to
// MPI's ranks.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "kolo/run/launch_ranks.h"

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "usage: start_ranks RANKS PROGRAM [ARGUMENT...]\n");
    return kolo::exit_wrong_input;
  }
  return kolo::run_ranks({.ranks = std::atoi(argv[1]),
                          .oversubscribe = true,
                          .command = {argv + 2, argv + argc},
                          .threads = 1,
                          .launcher = kolo::LauncherChoice::processes},
                         {.stop = {.signal = SIGTERM}});
} catch (const std::exception& error) {
  std::fprintf(stderr, "start_ranks: %s\n", error.what());
  return kolo::exit_wrong_input;
}
