#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/shared_memory/node_group.h"
#include "comm/shared_memory/shared_segments.h"
#include "comm/transfers/node_line.h"
#include "comm/transfers/transfer_desk.h"
#include "kolo/comm/topology.h"

namespace kolo {

// Bytes of a rank's area in the memory in which ranks meet: its cells and its staging area.
[[nodiscard]] std::size_t bytes_to_meet(std::size_t staging_bytes);

// The process of the rank that has that area; 0: none yet.
[[nodiscard]] int process_of(std::byte* area);

// Makes this process the rank that has areas[local_rank]. `areas`: by local rank, zero-filled at
// first, in memory that `owner` keeps.
[[nodiscard]] NodeMemory take_area(const std::vector<std::byte*>& areas,
                                   std::shared_ptr<void> owner, int local_rank, int job_rank);

// Memory in which a group's ranks of one node meet: a segment with each rank's cells, staging area
// and mailbox, and further segments for the group's allocations.
class NodeSegment {
 public:
  // Size of each rank's area in the segment.
  [[nodiscard]] static std::size_t bytes(int local_size, std::size_t staging_bytes);

  // Collective over the node's ranks, all of which have mapped `segment`; a barrier has to come
  // before they look at each other.
  NodeSegment(const Topology& topology, int job_rank, std::shared_ptr<SharedSegments> segments,
              std::shared_ptr<SharedSegment> segment, const NodeGroupOptions& options);

  [[nodiscard]] const std::shared_ptr<NodeGroup>& group() const { return group_; }

  // Bells of the job's ranks, by rank; null for those on other nodes. For the segment of all ranks.
  [[nodiscard]] std::vector<std::shared_ptr<Bell>> bells() const;

  // `job_ranks`: of the group. Null where the thread has no bells.
  [[nodiscard]] std::shared_ptr<TransferLine> make_line(const std::vector<int>& job_ranks,
                                                        const TransferThread& thread) const;

  // Backend::allocate(). `execute`: over all ranks of all nodes.
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(const CallHeader& call,
                                                                 const Execute& execute);
  // The same for a rank without a segment.
  [[nodiscard]] static std::vector<std::shared_ptr<std::byte>> allocate_alone(
      const CallHeader& call);

 private:
  Topology topology_;
  int job_rank_;
  std::shared_ptr<SharedSegments> segments_;
  NodeMemory memory_;
  std::vector<NodeMailbox> mailboxes_;  // by local rank
  std::shared_ptr<NodeGroup> group_;
};

// A set of ranks that a split makes, as its back end begins with it.
struct RankSet {
  int color = 0;
  int key = 0;
  std::vector<int> members;    // ranks in the group that is split; none: this rank is in no set
  Topology topology;           // of the set
  std::vector<int> job_ranks;  // of the members
  // The memory in which they meet; none where they have none, or there is one member.
  std::shared_ptr<SharedSegments> segments;
  std::shared_ptr<SharedSegment> segment;

  [[nodiscard]] bool has_this_rank() const { return !members.empty(); }
};

// Finds the ranks that pass the same colour; their set has no memory yet. `job_ranks`: of the group
// that is split. Collective.
[[nodiscard]] RankSet gather_set(const Topology& topology, const std::vector<int>& job_ranks,
                                 int color, int key, const Execute& execute);

// Makes the memory of all sets of this split at once, by node, or of none of them (false on all
// ranks), with staging areas of so many bytes. `topology`: of the group that is split. Collective.
[[nodiscard]] bool make_segment_of(RankSet& set, const Topology& topology,
                                   std::size_t staging_bytes, const Execute& execute);

}  // namespace kolo
