#include "comm/shared_memory/node_segment.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

#include <unistd.h>

#include "comm/solo/alone.h"
#include "comm/watch/event_block.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

constexpr std::size_t bytes_of_cells = sizeof(AbortCell) + sizeof(RankCell);

RankCell& cell_in(std::byte* area) {
  return *std::launder(reinterpret_cast<RankCell*>(area + sizeof(AbortCell)));
}

}  // namespace

std::size_t bytes_to_meet(std::size_t staging_bytes) {
  return checked_add(bytes_of_cells, staging_bytes + 63) / 64 * 64;
}

int process_of(std::byte* area) {
  return cell_in(area).process;
}

NodeMemory take_area(const std::vector<std::byte*>& areas, std::shared_ptr<void> owner,
                     int local_rank, int job_rank) {
  NodeMemory memory;
  memory.abort = std::launder(reinterpret_cast<AbortCell*>(areas.front()));
  for (std::byte* const area : areas) {
    memory.cells.push_back(&cell_in(area));
    memory.staging.push_back(area + bytes_of_cells);
  }
  RankCell& own = *memory.cells[static_cast<std::size_t>(local_rank)];
  own.job_rank = job_rank;
  own.process_namespace = own_process_namespace();
  own.process = ::getpid();
  memory.owner = std::move(owner);
  return memory;
}

std::size_t NodeSegment::bytes(int local_size, std::size_t staging_bytes) {
  return checked_add(bytes_to_meet(staging_bytes),
                     NodeMailbox::bytes_for(local_size, staging_bytes));
}

NodeSegment::NodeSegment(const Topology& topology, int job_rank,
                         std::shared_ptr<SharedSegments> segments,
                         std::shared_ptr<SharedSegment> segment, const NodeGroupOptions& options)
    : topology_(topology), job_rank_(job_rank), segments_(std::move(segments)) {
  std::vector<std::byte*> areas;
  for (int peer = 0; peer < topology_.local_size; ++peer) {
    areas.push_back(segment->area(peer));
    mailboxes_.emplace_back(areas.back() + bytes_to_meet(options.staging_bytes),
                            topology_.local_size, options.staging_bytes);
  }
  memory_ = take_area(areas, std::move(segment), topology_.local_rank, job_rank);
  group_ = std::make_shared<NodeGroup>(topology_.local_rank, memory_, segments_, options);
}

std::vector<std::shared_ptr<Bell>> NodeSegment::bells() const {
  std::vector<std::shared_ptr<Bell>> bells(topology_.node_of_rank.size());
  for (auto mailbox = mailboxes_.begin(); const int rank : topology_.ranks_on_node())
    bells[static_cast<std::size_t>(rank)] =
        std::shared_ptr<Bell>(memory_.owner, &(mailbox++)->bell());
  return bells;
}

std::shared_ptr<TransferLine> NodeSegment::make_line(const std::vector<int>& job_ranks,
                                                     const TransferThread& thread) const {
  if (!thread.bell_of(job_rank_)) return nullptr;
  NodeLineMemory memory;
  memory.mailboxes = mailboxes_;
  memory.ranks = topology_.ranks_on_node();
  for (const int rank : memory.ranks)
    memory.bells.push_back(thread.bell_of(job_ranks[static_cast<std::size_t>(rank)]));
  memory.control = memory_;
  return std::make_shared<NodeLine>(topology_.local_rank, std::move(memory));
}

std::vector<std::shared_ptr<std::byte>> NodeSegment::allocate_alone(const CallHeader& call) {
  if (call.collective != Collective::allocate) return {};
  return {allocate_aligned(static_cast<std::size_t>(call.count))};
}

// Out of a segment, in which each rank has an area; memory for the whole node is all of the first
// rank's, and the others have none.
std::vector<std::shared_ptr<std::byte>> NodeSegment::allocate(const CallHeader& call,
                                                              const Execute& execute) {
  const bool is_for_node = call.collective == Collective::allocate_for_node;
  const std::int64_t mine = is_for_node && topology_.local_rank > 0 ? 0 : call.count;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(topology_.local_size));
  group_->execute(CollectiveCall::all_gather(std::span(&mine, 1), std::span(sizes)));
  const auto room = is_for_node ? SharedSegment::Room::when_written : SharedSegment::Room::at_once;
  const auto segment = segments_->add(
      {sizes.begin(), sizes.end()}, room,
      {.ranks = topology_.size, .first = topology_.ranks_on_node().front(), .execute = execute});
  if (!segment) return allocate_alone(call);
  const auto use = SharedSegments::use_of(segment);
  std::vector<std::shared_ptr<std::byte>> areas;
  for (int peer = 0; peer < (is_for_node ? 1 : topology_.local_size); ++peer)
    areas.emplace_back(use, segment->area(peer));
  if (call.collective == Collective::allocate)
    return {areas[static_cast<std::size_t>(topology_.local_rank)]};
  return areas;
}

RankSet gather_set(const Topology& topology, const std::vector<int>& job_ranks, int color, int key,
                   const Execute& execute) {
  const std::array<std::int32_t, 2> mine = {std::max(color, -1), key};
  const auto all = gather(topology.size, std::span<const std::int32_t>(mine), execute);
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
  const auto index = std::ranges::find(set.members, topology.rank) - set.members.begin();
  set.topology = Topology::from_node_ids(narrow<int>(index), nodes);
  return set;
}

bool make_segment_of(RankSet& set, const Topology& topology, std::size_t staging_bytes,
                     const Execute& execute) {
  SegmentMakers makers{.ranks = topology.size, .first = 0, .execute = execute};
  if (!set.has_this_rank() || set.topology.size == 1) return SharedSegments::watch_others(makers);
  makers.first = set.members[static_cast<std::size_t>(set.topology.ranks_on_node().front())];
  set.segments = std::make_shared<SharedSegments>(set.topology.local_rank);
  const std::vector<std::size_t> bytes(static_cast<std::size_t>(set.topology.local_size),
                                       NodeSegment::bytes(set.topology.local_size, staging_bytes));
  set.segment = set.segments->add(bytes, SharedSegment::Room::at_once, makers);
  return set.segment != nullptr;
}

}  // namespace kolo
