// How the tests of meshes run: of samples, layers and networks that several ranks share.
#include "support/rank_test.h"

namespace kolo::testing {

std::vector<RankSetting> thread_settings(std::string_view /*suite*/) {
  std::vector<RankSetting> settings;
  for (const int ranks : {RANKS_AS_THREADS}) settings.push_back(on_threads(ranks, "directly"));
  settings.push_back(
      on_threads(4, "through tiny staging areas", {.staging_bytes = 4096, .direct = false}));
  return settings;
}

std::vector<RankSetting> process_settings(std::string_view /*suite*/) {
  return {on_processes("by default")};
}

std::vector<RankSetting> mpi_settings(std::string_view /*suite*/, int ranks) {
  std::vector<RankSetting> settings = {on_mpi("by default")};
  if (ranks > 1)
    settings.push_back(on_mpi("the last on a node of its own", {.ranks_on_nodes = {ranks - 1, 1}}));
  return settings;
}

}  // namespace kolo::testing
