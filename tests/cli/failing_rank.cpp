// A job in which rank 1 fails while all others wait for it in collectives that never end.
#include <stdexcept>

#include "cli/rank/rank_guard.h"
#include "kolo/comm/mpi.h"

int main() {
  const auto communicator = kolo::mpi_communicator();
  return kolo::run_guarded(communicator, [&] {
    float value = 1;
    communicator.all_reduce(std::span(&value, 1));
    if (communicator.rank() == 1) throw std::runtime_error("broken on purpose");
    while (true) communicator.all_reduce(std::span(&value, 1));
    return 0;
  });
}
