// How the rank tests of this room run.
#include "support/rank_test.h"

namespace kolo::testing {

std::vector<RankSetting> thread_settings(std::string_view /*suite*/) {
  std::vector<RankSetting> settings;
  for (const int ranks : {1, 2, 3, 4}) settings.push_back(on_threads(ranks));
  return settings;
}

std::vector<RankSetting> process_settings(std::string_view /*suite*/) {
  return {on_processes("by default")};
}

std::vector<RankSetting> mpi_settings(std::string_view /*suite*/, int ranks) {
  std::vector<RankSetting> settings = {on_mpi("by default")};
  if (ranks > 1) settings.push_back(on_mpi("by MPI alone", {.shared_memory = SharedMemory::off}));
  return settings;
}

}  // namespace kolo::testing
