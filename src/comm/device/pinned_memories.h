#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "kolo/comm/device.h"

namespace kolo {

// Pinned memory of the host, which takes long to make: what comes back is given out again.
class PinnedMemories {
 public:
  // Memory of at least `bytes`, pinned for `device`; comes back by itself.
  [[nodiscard]] std::shared_ptr<std::byte> take(const DeviceRuntime& runtime, int device,
                                                std::size_t bytes);

 private:
  struct Piece {
    std::size_t bytes = 0;
    std::shared_ptr<std::byte> memory;
  };
  struct Free {
    std::mutex mutex;
    std::vector<Piece> pieces;
  };

  std::shared_ptr<Free> free_ = std::make_shared<Free>();
};

}  // namespace kolo
