#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "comm/shared_memory/node_group.h"
#include "comm/shared_memory/node_sets.h"
#include "comm/transfers/node_line.h"
#include "comm/transfers/transfer_desk.h"
#include "kolo/comm/topology.h"

namespace kolo {

// Bytes of a rank's part of the memory in which ranks meet: its cells and its staging area.
[[nodiscard]] std::size_t bytes_to_meet(std::size_t staging_bytes);

// The process of the rank that has that part; 0: none yet.
[[nodiscard]] int process_of(std::byte* part);

// Makes this process the rank that has parts[local_rank]. `parts`: by local rank, zero-filled at
// first, in memory that `owner` keeps.
[[nodiscard]] NodeMemory take_part(const std::vector<std::byte*>& parts,
                                   std::shared_ptr<void> owner, int local_rank, int job_rank);

// The memory in which those ranks of a group meet that are on one node: a segment with each rank's
// cells, staging area and mailbox, and further segments for what the group allocates.
class NodeStage {
 public:
  // Size of each rank's part of the segment.
  [[nodiscard]] static std::size_t bytes(int local_size, std::size_t staging_bytes);

  // Collective over the node's ranks, all of which have mapped `stage`; a barrier has to come
  // before they look at each other.
  NodeStage(const Topology& topology, int job_rank, std::shared_ptr<SharedSegments> segments,
            std::shared_ptr<SharedSegment> stage, const NodeGroupOptions& options);

  [[nodiscard]] const std::shared_ptr<NodeGroup>& group() const { return group_; }

  // Bells of the job's ranks, by rank; null for those on other nodes. For the stage of all ranks.
  [[nodiscard]] std::vector<std::shared_ptr<Bell>> bells() const;

  // `job_ranks`: of the group. Null where the thread has no bells.
  [[nodiscard]] std::shared_ptr<TransferLine> make_line(const std::vector<int>& job_ranks,
                                                        const TransferThread& thread) const;

  // Backend::allocate(). `everywhere` tells whether it is so on every rank of every node.
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> allocate(
      const CallHeader& call, const std::function<bool(bool)>& everywhere);
  // The same for a rank without a stage.
  [[nodiscard]] static std::vector<std::shared_ptr<std::byte>> allocate_alone(
      const CallHeader& call);

 private:
  [[nodiscard]] std::vector<int> ranks_here() const;

  Topology topology_;
  int job_rank_;
  std::shared_ptr<SharedSegments> segments_;
  NodeMemory memory_;
  std::vector<NodeMailbox> mailboxes_;  // by local rank
  std::shared_ptr<NodeGroup> group_;
};

}  // namespace kolo
