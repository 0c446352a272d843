#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "comm/mpi/mpi_runtime.h"
#include "comm/shared_memory/peer_memory.h"

namespace kolo {

// The MPI-3 shared-memory windows of a node's ranks: each rank has a part of each window and can
// reach all parts. A window stays until all of them are freed together, because freeing is
// collective.
class SharedWindows final : public PeerMemory {
 public:
  SharedWindows(std::shared_ptr<const MpiRuntime> runtime, const MpiGroup& node);
  SharedWindows(const SharedWindows&) = delete;
  SharedWindows& operator=(const SharedWindows&) = delete;
  ~SharedWindows() override;

  // A new window with `bytes` of this rank's own, zero-filled, aligned to 64 bytes; returns its
  // number, or nothing where MPI can't (on this rank; the others may have succeeded). Collective
  // over the node.
  [[nodiscard]] std::optional<std::size_t> add(std::size_t bytes);
  // The same with parts of different sizes, and content that is not defined: pages that nobody
  // writes take no room.
  [[nodiscard]] std::optional<std::size_t> add_unwritten(std::size_t bytes);

  // A rank's part of a window, and of this rank's own.
  [[nodiscard]] std::byte* part(std::size_t window, int local_rank) const;
  [[nodiscard]] std::byte* own_part(std::size_t window) const { return part(window, local_rank_); }

  [[nodiscard]] std::optional<SharedLocation> locate(const void* data,
                                                     std::size_t bytes) const override;
  [[nodiscard]] std::byte* address(int local_rank, SharedLocation location) const override;

 private:
  struct Window {
    MPI_Win handle = MPI_WIN_NULL;
    std::size_t bytes = 0;          // of this rank's part
    std::vector<std::byte*> parts;  // by local rank
  };

  std::shared_ptr<const MpiRuntime> runtime_;
  const MpiGroup& node_;
  int local_rank_;
  std::vector<Window> windows_;
};

}  // namespace kolo
