#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace kolo {

// A place in memory, in words that mean the same to all ranks of a node.
struct SharedLocation {
  std::uint64_t segment = 0;
  std::uint64_t offset = 0;
};

// How the ranks of a node reach each other's memory.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;

  // Where this rank's own memory lies for the others; nothing when they can't reach (all of) it.
  [[nodiscard]] virtual std::optional<SharedLocation> locate(const void* data,
                                                             std::size_t bytes) const = 0;

  // A local rank's location as an address of this process.
  [[nodiscard]] virtual std::byte* address(int local_rank, SharedLocation location) const = 0;
};

}  // namespace kolo
