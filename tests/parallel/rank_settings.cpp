// How the rank tests of this room run.
#include "support/rank_test.h"

namespace kolo::testing {

std::vector<RankSetting> thread_settings(std::string_view /*suite*/) {
  std::vector<RankSetting> settings;
  for (const int ranks : {1, 2, 3, 4}) {
    settings.push_back(on_threads(ranks, "directly"));
    settings.push_back(
        on_threads(ranks, "through tiny staging areas", {.staging_bytes = 4096, .direct = false}));
  }
  return settings;
}

// Gradients in the memory of the ranks' node, over MPI alone, and both.
std::vector<RankSetting> process_settings(std::string_view /*suite*/) {
  return {on_processes("by default")};
}

std::vector<RankSetting> mpi_settings(std::string_view suite, int ranks) {
  std::vector<RankSetting> settings = {
      on_mpi("by default"), on_mpi("by MPI alone", {.shared_memory = SharedMemory::off})};
  if (ranks > 1)
    settings.push_back(on_mpi("the last on a node of its own", {.ranks_on_nodes = {ranks - 1, 1}}));
  if (ranks > 2)
    settings.push_back(
        on_mpi("the first on a node of its own", {.ranks_on_nodes = {1, ranks - 1}}));
  // They add up among a node's ranks first where all nodes have as many.
  if (suite == "VirtualRanks" && ranks == 4)
    settings.push_back(on_mpi("two on each of two nodes", {.ranks_on_nodes = {2, 2}}));
  return settings;
}

}  // namespace kolo::testing
