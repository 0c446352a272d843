#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/mpi/mpi_group.h"
#include "comm/shared_memory/peer_memory.h"
#include "comm/shared_memory/shared_segment.h"

namespace kolo {

// The shared memory of a node's ranks, in segments that all of them map. Making one is collective,
// letting go of one is not: its room is given back when no rank uses it any more, and what is left
// of it here when the next one is made.
class SharedSegments final : public PeerMemory {
 public:
  // `all` has the ranks of all nodes: memory is there for all or for none, since private memory on
  // one rank would make the ranks take different paths.
  SharedSegments(const MpiGroup& all, const MpiGroup& node);

  // A new segment with `bytes` of this rank's own; nothing, on all ranks, where one of them can't
  // have it. Collective over all.
  [[nodiscard]] std::shared_ptr<SharedSegment> add(std::size_t bytes, SharedSegment::Room room);

  // Memory in a segment, which this rank uses until the last of such is gone.
  [[nodiscard]] static std::shared_ptr<void> use_of(std::shared_ptr<SharedSegment> segment);

  [[nodiscard]] std::optional<SharedLocation> locate(const void* data,
                                                     std::size_t bytes) const override;
  [[nodiscard]] std::byte* address(int local_rank, SharedLocation location) const override;

 private:
  struct Numbered {
    std::uint64_t number = 0;  // the same on all ranks of the node
    std::shared_ptr<SharedSegment> segment;
  };

  void forget_unused();

  const MpiGroup& all_;
  const MpiGroup& node_;
  int local_rank_;
  std::uint64_t made_ = 0;
  std::vector<Numbered> segments_;
};

}  // namespace kolo
