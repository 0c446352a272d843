#include "comm/device/pinned_memories.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace kolo {

std::shared_ptr<std::byte> PinnedMemories::take(const DeviceRuntime& runtime, int device,
                                                std::size_t bytes) {
  constexpr std::size_t least = 4096;
  const std::size_t size = std::bit_ceil(std::max(bytes, least));
  Piece piece;
  {
    const std::lock_guard lock(free_->mutex);
    auto& pieces = free_->pieces;
    const auto found = std::find_if(pieces.begin(), pieces.end(),
                                    [&](const Piece& each) { return each.bytes == size; });
    if (found != pieces.end()) {
      piece = std::move(*found);
      pieces.erase(found);
    }
  }
  if (!piece.memory) piece = {size, runtime.allocate_pinned(device, size)};
  std::byte* const memory = piece.memory.get();
  return {memory, [free = free_, piece](std::byte*) mutable {
            const std::lock_guard lock(free->mutex);
            free->pieces.push_back(std::move(piece));
          }};
}

}  // namespace kolo
