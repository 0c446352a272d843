#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include "kolo/base/checked.h"
#include "kolo/comm/collective_call.h"

namespace kolo {

// Does a collective over all ranks of a group.
using Execute = std::function<void(const CollectiveCall&)>;

// Every rank's values, in the order of the ranks. Collective.
template <typename T>
std::vector<T> gather(int ranks, std::span<const T> mine, const Execute& execute) {
  static_assert(std::is_trivially_copyable_v<T>, "values are sent as bytes");
  std::vector<T> all(mine.size() * static_cast<std::size_t>(ranks));
  execute(CollectiveCall::all_gather(
      ConstBuffer(mine.data(), narrow<std::int64_t>(mine.size_bytes()), DataType::uint8),
      Buffer(all.data(), narrow<std::int64_t>(all.size() * sizeof(T)), DataType::uint8)));
  return all;
}

// Tells whether `here` is true on every rank. Collective.
[[nodiscard]] inline bool is_everywhere(bool here, const Execute& execute) {
  std::uint8_t value = here ? 1 : 0;
  execute(CollectiveCall::all_reduce(std::span(&value, 1), ReduceOp::min));
  return value == 1;
}

}  // namespace kolo
