#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/shared_memory/shared_segments.h"
#include "kolo/comm/collective_call.h"
#include "kolo/comm/topology.h"

namespace kolo {

// Does a collective over all ranks of the group that is split.
using Execute = std::function<void(const CollectiveCall&)>;

// Every rank's values, in the order of the ranks. Collective.
template <typename T>
std::vector<T> gather(const Topology& topology, std::span<const T> mine, const Execute& execute) {
  std::vector<T> all(mine.size() * static_cast<std::size_t>(topology.size));
  execute(CollectiveCall::all_gather(mine, std::span(all)));
  return all;
}

// Whether it is so on every rank. Collective.
[[nodiscard]] bool is_everywhere(bool here, const Execute& execute);

// SharedSegments::Agreement::place_of_first, by a broadcast among the ranks of the node.
[[nodiscard]] std::function<std::string(const std::string&)> place_by(const Execute& on_node);

// A set of ranks that a split makes, as its back end begins with it.
struct RankSet {
  int color = 0;
  int key = 0;
  std::vector<int> members;    // ranks in the group that is split; none: this rank is in no set
  Topology topology;           // of the set
  std::vector<int> job_ranks;  // of the members
  // The memory in which they meet; none where they have none, or there is one member.
  std::shared_ptr<SharedSegments> segments;
  std::shared_ptr<SharedSegment> stage;

  [[nodiscard]] bool has_this_rank() const { return !members.empty(); }
};

// The set of those that pass the same colour, without memory. `job_ranks`: of the group that is
// split. Collective.
[[nodiscard]] RankSet gather_set(const Topology& topology, const std::vector<int>& job_ranks,
                                 int color, int key, const Execute& execute);

// Makes the memory of all sets of this split at once, or of none of them (false on all ranks), with
// staging areas of so many bytes. All ranks are on one node. Collective.
[[nodiscard]] bool make_stage_of(RankSet& set, const Topology& topology, std::size_t staging_bytes,
                                 const Execute& execute);

}  // namespace kolo
