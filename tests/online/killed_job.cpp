// killed_job FOLDER STEPS KILLED_AFTER MICROSECONDS: a simulation of some ranks that saves its
// network every third time step, and goes on from the newest that is there. For
// killed_jobs_test.cpp. After so many time steps of its own, and so many microseconds more, its
// last rank is killed; KILLED_AFTER 0: it is not. At its end rank 0 prints the checksum of the
// weights.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "kolo/comm/session.h"
#include "online/linear_task.h"

namespace kolo::testing {
namespace {

namespace fs = std::filesystem;

struct Job {
  fs::path folder;
  std::int64_t steps = 0, killed_after = 0, microseconds = 0;
};

// The tag of the newest that is whole; 0 without any.
std::int64_t newest(const fs::path& folder) {
  const std::string prefix = "step-";
  std::int64_t tag = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    std::int64_t found = 0;
    const auto* const end = name.data() + name.size();
    const auto [last, error] = std::from_chars(name.data() + prefix.size(), end, found);
    if (error == std::errc() && last == end) tag = std::max(tag, found);
  }
  return tag;
}

void simulate(const Communicator& ranks, const Job& job) {
  OnlineNetwork network(
      ranks, linear_config({"reservoir.capacity=4 KiB", "normalization.inputs=channels"}));
  auto first = ranks.rank() == 0 ? newest(job.folder) : 0;
  first = all_reduce_value(ranks, first, ReduceOp::max);
  if (first > 0) network.restore(job.folder, first);
  const bool is_killed = job.killed_after > 0 && ranks.rank() == ranks.size() - 1;
  for (auto step = first + 1; step <= job.steps; ++step) {
    std::mt19937 random(static_cast<unsigned>(1000 * step + ranks.rank()));
    Cells cells(random, 24);
    network.push(cells.inputs(), cells.targets());
    network.tick(step);
    if (is_killed && step == first + job.killed_after) {
      std::thread([&job] {
        std::this_thread::sleep_for(std::chrono::microseconds(job.microseconds));
        (void)std::raise(SIGKILL);
      }).detach();
    }
    if (step % 3 == 0) network.save(job.folder, step);
  }
  // Whoever is to be killed later than its end is killed at its end.
  if (is_killed && job.steps > first) (void)std::raise(SIGKILL);
  if (ranks.rank() == 0) std::printf("%.0f\n", network.get("checksum"));
}

}  // namespace
}  // namespace kolo::testing

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  MPI_Init(&argc, &argv);
  auto session = kolo::initialize(MPI_COMM_WORLD);
  kolo::testing::simulate(session.communicator(),
                          {argv[1], std::stoll(argv[2]), std::stoll(argv[3]), std::stoll(argv[4])});
  session.finalize();
  MPI_Finalize();
  return 0;
}
