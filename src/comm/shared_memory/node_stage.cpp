#include "comm/shared_memory/node_stage.h"

#include <new>
#include <span>
#include <string>
#include <utility>

#include <unistd.h>

#include "comm/solo/alone.h"
#include "comm/watch/event_block.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

constexpr std::size_t cells = sizeof(AbortCell) + sizeof(RankCell);

RankCell& cell_in(std::byte* part) {
  return *std::launder(reinterpret_cast<RankCell*>(part + sizeof(AbortCell)));
}

}  // namespace

std::size_t bytes_to_meet(std::size_t staging_bytes) {
  return checked_add(cells, staging_bytes + 63) / 64 * 64;
}

int process_of(std::byte* part) {
  return cell_in(part).process;
}

NodeMemory take_part(const std::vector<std::byte*>& parts, std::shared_ptr<void> owner,
                     int local_rank, int job_rank) {
  NodeMemory memory;
  memory.abort = std::launder(reinterpret_cast<AbortCell*>(parts.front()));
  for (std::byte* const part : parts) {
    memory.cells.push_back(&cell_in(part));
    memory.staging.push_back(part + cells);
  }
  RankCell& own = *memory.cells[static_cast<std::size_t>(local_rank)];
  own.job_rank = job_rank;
  own.process_namespace = own_process_namespace();
  own.process = ::getpid();
  memory.owner = std::move(owner);
  return memory;
}

std::size_t NodeStage::bytes(int local_size, std::size_t staging_bytes) {
  return checked_add(bytes_to_meet(staging_bytes),
                     NodeMailbox::bytes_for(local_size, staging_bytes));
}

NodeStage::NodeStage(const Topology& topology, int job_rank,
                     std::shared_ptr<SharedSegments> segments, std::shared_ptr<SharedSegment> stage,
                     const NodeGroupOptions& options)
    : topology_(topology), job_rank_(job_rank), segments_(std::move(segments)) {
  std::vector<std::byte*> parts;
  for (int peer = 0; peer < topology_.local_size; ++peer) {
    parts.push_back(stage->part(peer));
    mailboxes_.emplace_back(parts.back() + bytes_to_meet(options.staging_bytes),
                            topology_.local_size, options.staging_bytes);
  }
  memory_ = take_part(parts, std::move(stage), topology_.local_rank, job_rank);
  group_ = std::make_shared<NodeGroup>(topology_.local_rank, memory_, segments_, options);
}

std::vector<int> NodeStage::ranks_here() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < topology_.size; ++rank) {
    if (topology_.node_of_rank[static_cast<std::size_t>(rank)] == topology_.node)
      ranks.push_back(rank);
  }
  return ranks;
}

std::vector<std::shared_ptr<Bell>> NodeStage::bells() const {
  std::vector<std::shared_ptr<Bell>> bells(topology_.node_of_rank.size());
  for (auto mailbox = mailboxes_.begin(); const int rank : ranks_here())
    bells[static_cast<std::size_t>(rank)] =
        std::shared_ptr<Bell>(memory_.owner, &(mailbox++)->bell());
  return bells;
}

std::shared_ptr<TransferLine> NodeStage::make_line(const std::vector<int>& job_ranks,
                                                   const TransferThread& thread) const {
  if (!thread.bell_of(job_rank_)) return nullptr;
  NodeLineMemory memory;
  memory.mailboxes = mailboxes_;
  memory.ranks = ranks_here();
  for (const int rank : memory.ranks)
    memory.bells.push_back(thread.bell_of(job_ranks[static_cast<std::size_t>(rank)]));
  memory.control = memory_;
  return std::make_shared<NodeLine>(topology_.local_rank, std::move(memory));
}

std::vector<std::shared_ptr<std::byte>> NodeStage::allocate_alone(const CallHeader& call) {
  if (call.collective != Collective::allocate) return {};
  return {allocate_aligned(static_cast<std::size_t>(call.count))};
}

// Out of a segment, in which each rank has a part; memory for the whole node is all of the first
// rank's, and the others have none.
std::vector<std::shared_ptr<std::byte>> NodeStage::allocate(
    const CallHeader& call, const std::function<bool(bool)>& everywhere) {
  const bool is_for_node = call.collective == Collective::allocate_for_node;
  const std::int64_t mine = is_for_node && topology_.local_rank > 0 ? 0 : call.count;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(topology_.local_size));
  const Execute on_node = [this](const CollectiveCall& each) { group_->execute(each); };
  on_node(CollectiveCall::all_gather(std::span(&mine, 1), std::span(sizes)));
  const auto room = is_for_node ? SharedSegment::Room::when_written : SharedSegment::Room::at_once;
  const auto segment =
      segments_->add({sizes.begin(), sizes.end()}, room, {place_by(on_node), everywhere});
  if (!segment) return allocate_alone(call);
  const auto use = SharedSegments::use_of(segment);
  std::vector<std::shared_ptr<std::byte>> parts;
  for (int peer = 0; peer < (is_for_node ? 1 : topology_.local_size); ++peer)
    parts.emplace_back(use, segment->part(peer));
  if (call.collective == Collective::allocate)
    return {parts[static_cast<std::size_t>(topology_.local_rank)]};
  return parts;
}

}  // namespace kolo
