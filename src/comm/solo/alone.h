#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

#include <fmt/format.h>

#include "kolo/base/error.h"
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

// Does a collective of one rank: reductions are the values themselves, and data that goes from rank
// to rank is copied.
inline void execute_alone(const CollectiveCall& call) {
  if (call.input.count != call.output.count) {
    throw Error(fmt::format("comm: {}: rank 0 sends {} {} to rank 0, which expects {}",
                            name_of(call.collective), call.input.count, name_of(call.type),
                            call.output.count));
  }
  if (call.output.bytes() > 0 && call.output.data != call.input.data)
    std::memmove(call.output.data, call.input.data, call.output.bytes());
}

}  // namespace kolo
