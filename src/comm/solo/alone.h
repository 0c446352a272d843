#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

#include "kolo/comm/collective_call.h"

namespace kolo {

// Zero-filled private memory, aligned for the widest vector instructions.
inline std::shared_ptr<std::byte> allocate_aligned(std::size_t bytes) {
  constexpr std::align_val_t alignment{64};
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  auto* memory = static_cast<std::byte*>(::operator new(size, alignment));
  std::memset(memory, 0, size);
  return {memory, [](std::byte* pointer) { ::operator delete(pointer, alignment); }};
}

// A collective of one rank: every reduction is the value itself, and whatever goes from rank to
// rank is a copy.
void execute_alone(const CollectiveCall& call);

}  // namespace kolo
