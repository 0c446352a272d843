// start_ranks RANKS PROGRAM [ARGUMENT...]: starts ranks as processes of this machine, also more
// than it has cores, and ends with the job's status. (tests/support/mpirun does so with MPI.)
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
