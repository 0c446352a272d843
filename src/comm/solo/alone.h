#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "base/aligned_values.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/comm/collective_call.h"

namespace kolo {

// Zero-filled private memory, aligned for the widest vector instructions.
inline std::shared_ptr<std::byte> allocate_aligned(std::size_t bytes) {
  const auto size = std::max<std::int64_t>(narrow<std::int64_t>(bytes), 1);
  auto memory = uninitialized<std::byte>(size);
  std::fill_n(memory.get(), size, std::byte{});
  return {memory.release(), FreeAligned{}};
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
