#include "peers/gloo.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <torch/types.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "comm/mpi/mpi_calls.h"

namespace kolo {

namespace {

// A file through which the ranks find each other; rank 0's choice.
std::string meeting_place() {
  std::array<char, 64> path{};
  const auto own = fmt::format("/tmp/kolo-bench-gloo-{}", ::getpid());
  std::copy(own.begin(), own.end(), path.begin());
  check_mpi(MPI_Bcast(path.data(), static_cast<int>(path.size()), MPI_CHAR, 0, MPI_COMM_WORLD),
            "MPI_Bcast");
  return path.data();
}

}  // namespace

std::function<void(std::span<float>)> gloo_all_reduce(int rank, int size) {
  const auto path = meeting_place();
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
  options->threads = 2;
  const auto store = c10::make_intrusive<c10d::FileStore>(path, size);
  const auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
  if (rank == 0) std::filesystem::remove(path);
  return [group](std::span<float> values) {
    std::vector<torch::Tensor> tensors = {
        torch::from_blob(values.data(), {static_cast<std::int64_t>(values.size())})};
    group->allreduce(tensors)->wait();
  };
}

}  // namespace kolo
