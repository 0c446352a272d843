#include "kolo/parallel/initialize.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <torch/utils.h>

#include "kolo/base/machine.h"
#include "kolo/base/random.h"

namespace kolo {

namespace {

constexpr std::uint32_t rank_stream = 0x72616e6b;  // "rank", apart from other uses of one seed

// The same number on ranks that may run on the same CPUs.
std::int64_t fingerprint_of_cpus() {
  std::uint64_t value = 1469598103934665603U;  // FNV-1a
  for (const int cpu : allowed_cpus())
    value = (value ^ static_cast<std::uint64_t>(cpu)) * 1099511628211U;
  return static_cast<std::int64_t>(value);
}

// Ranks of this node that share their CPUs with this one, itself included. A launcher that binds
// gives each its own; without binding all have all.
int ranks_on_these_cpus(const Communicator& communicator) {
  const auto mine = fingerprint_of_cpus();
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(std::span(&mine, 1), std::span(all), {.name = "CPUs of the ranks"});
  const Topology& topology = communicator.topology();
  int ranks = 0;
  for (int rank = 0; rank < topology.size; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (topology.node_of_rank[index] == topology.node && all[index] == mine) ++ranks;
  }
  return ranks;
}

}  // namespace

Communicator initialize(const MpiOptions& options) {
  return mpi_communicator(options);
}

torch::Device pin_device(const Communicator& communicator) {
  const int ranks = ranks_on_these_cpus(communicator);
  if (std::getenv("OMP_NUM_THREADS") == nullptr)
    torch::set_num_threads(std::max(1, detect_cpu_limits().cores() / ranks));
  return torch::kCPU;
}

std::uint64_t seed_ranks(const Communicator& communicator, std::uint64_t seed) {
  const auto rank = static_cast<std::uint32_t>(communicator.rank());
  const std::uint64_t own = rank == 0 ? seed : derive_seed(seed, rank_stream, rank);
  torch::manual_seed(own);
  return own;
}

}  // namespace kolo
