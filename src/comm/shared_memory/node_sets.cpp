#include "comm/shared_memory/node_sets.h"

#include <array>
#include <cstdint>
#include <string>

#include "comm/shared_memory/node_stage.h"
#include "kolo/base/checked.h"

namespace kolo {

bool is_everywhere(bool here, const Execute& execute) {
  std::uint8_t value = here ? 1 : 0;
  execute(CollectiveCall::all_reduce(std::span(&value, 1), ReduceOp::min));
  return value == 1;
}

std::function<std::string(const std::string&)> place_by(const Execute& on_node) {
  return [on_node](const std::string& place) {
    auto text = padded(place);
    on_node(CollectiveCall::broadcast(std::span(text), 0));
    return place_in(text);
  };
}

RankSet gather_set(const Topology& topology, const std::vector<int>& job_ranks, int color, int key,
                   const Execute& execute) {
  const std::array<std::int32_t, 2> mine = {std::max(color, -1), key};
  const auto all = gather(topology, std::span<const std::int32_t>(mine), execute);
  const auto color_of = [&](int rank) { return all[2 * static_cast<std::size_t>(rank)]; };
  const auto key_of = [&](int rank) { return all[2 * static_cast<std::size_t>(rank) + 1]; };
  RankSet set{.color = mine[0], .key = key};
  for (int rank = 0; rank < topology.size; ++rank) {
    if (color >= 0 && color_of(rank) == color) set.members.push_back(rank);
  }
  if (!set.has_this_rank()) return set;
  std::ranges::stable_sort(set.members, {}, key_of);
  std::vector<int> nodes;
  for (const int rank : set.members) {
    nodes.push_back(topology.node_of_rank[static_cast<std::size_t>(rank)]);
    set.job_ranks.push_back(job_ranks[static_cast<std::size_t>(rank)]);
  }
  const auto place = std::ranges::find(set.members, topology.rank) - set.members.begin();
  set.topology = Topology::from_node_ids(narrow<int>(place), nodes);
  return set;
}

bool make_stage_of(RankSet& set, const Topology& topology, std::size_t staging_bytes,
                   const Execute& execute) {
  const auto place_of_first = [&](const std::string& place) {
    const auto own = padded(place);
    const auto places = gather(topology, std::span<const std::uint8_t>(own), execute);
    if (!set.has_this_rank()) return std::string();
    SegmentPlace first{};
    std::copy_n(places.begin() + set.members.front() * std::ssize(own), first.size(),
                first.begin());
    return place_in(first);
  };
  const SharedSegments::Agreement agreement{
      place_of_first, [&](bool here) { return is_everywhere(here, execute); }};
  if (!set.has_this_rank() || set.topology.size == 1)
    return SharedSegments::watch_others(agreement);
  set.segments = std::make_shared<SharedSegments>(set.topology.rank);
  const std::vector<std::size_t> bytes(static_cast<std::size_t>(set.topology.size),
                                       NodeStage::bytes(set.topology.size, staging_bytes));
  set.stage = set.segments->add(bytes, SharedSegment::Room::at_once, agreement);
  return set.stage != nullptr;
}

}  // namespace kolo
