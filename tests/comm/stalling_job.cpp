// stalling_job MODE VICTIM SIGNAL [SETTING]: a job that does collectives without end, in which one
// rank sends itself a signal while it does. For watch_jobs_test.cpp.
//   MODE     all-reduce, broadcast or backward (asynchronous all-reduces, as a reducer's)
//   SETTING  nodes (the last rank on a node of its own), mpi (no shared memory)
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "comm/mpi/mpi_header.h"
#include "kolo/comm/mpi.h"

namespace kolo {
namespace {

MpiOptions options_for(const std::string& setting, int size) {
  MpiOptions options;
  if (setting == "nodes") options.ranks_on_nodes = {size - 1, 1};
  if (setting == "mpi") options.shared_memory = SharedMemory::off;
  return options;
}

void step(const Communicator& communicator, const std::string& mode, std::vector<float>& values) {
  if (mode == "broadcast") return communicator.broadcast(std::span(values), 0, {.name = "weights"});
  if (mode == "all-reduce")
    return communicator.all_reduce(std::span(values), ReduceOp::sum, {.name = "sums"});
  std::vector<Work> works;
  for (std::size_t bucket = 0; bucket < 4; ++bucket) {
    works.push_back(communicator.all_reduce_async(std::span(values).subspan(bucket * 1000, 1000),
                                                  ReduceOp::average,
                                                  {.name = fmt::format("bucket {}", bucket)}));
  }
  for (const Work& work : works) work.wait();
}

int run(const std::string& mode, int victim, int signal, const std::string& setting) {
  int provided = 0, size = 1;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const auto communicator = mpi_communicator(options_for(setting, size));
  std::vector<float> values(100'000, 1.0F);
  step(communicator, mode, values);
  if (communicator.rank() == victim) {
    std::thread([signal] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ::kill(::getpid(), signal);
    }).detach();
  }
  while (true) step(communicator, mode, values);
}

}  // namespace
}  // namespace kolo

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  return kolo::run(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), argc > 4 ? argv[4] : "");
}
