#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/shared_memory/node_group.h"
#include "comm/shared_memory/shared_segments.h"

namespace kolo {

// Variables by which a rank finds its job.
inline constexpr const char* process_rank_variable = "KOLO_PROCESS_RANK";
inline constexpr const char* process_ranks_variable = "KOLO_PROCESS_RANKS";
inline constexpr const char* process_memory_variable = "KOLO_PROCESS_MEMORY";

// Memory that the parent of a job's ranks makes before it starts them: in it they meet first, to
// agree on options and to make the memory of a communicator. It has room for a few communicators.
class ProcessRegion {
 public:
  // Made by the parent, which keeps it until the last rank has ended. Error: there is no memory.
  explicit ProcessRegion(int ranks);
  // Opened by a rank. InputError where kolo has not started this process as one of several.
  ProcessRegion();

  // Environment variables by which a rank finds the memory.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> environment(int rank) const;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }

  // Meeting of all ranks for this process's next communicator. Collective. StateError where there
  // is no room for another, or another process is this rank.
  [[nodiscard]] NodeGroup next_meeting();

 private:
  [[nodiscard]] std::vector<std::size_t> sizes() const;

  int rank_ = 0;
  int ranks_;
  std::shared_ptr<SharedSegment> memory_;
  SharedSegment::Offer offer_;  // of the parent
};

}  // namespace kolo
