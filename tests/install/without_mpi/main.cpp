#include <cstdint>
#include <iostream>

#include "kolo/comm/mpi.h"
#include "kolo/comm/processes.h"

int main() {
  const auto communicator = kolo::job_communicator();
  const auto sum = kolo::all_reduce_value<std::int64_t>(communicator, communicator.rank() + 1);
  if (communicator.rank() == 0)
    std::cout << communicator.size() << " ranks without MPI: " << sum << std::endl;
}
