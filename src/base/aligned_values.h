#pragma once

#include <cstdint>
#include <memory>
#include <new>

#include "kolo/base/checked.h"

namespace kolo {

inline constexpr std::align_val_t cache_line{64};

struct FreeAligned {
  void operator()(void* memory) const { ::operator delete(memory, cache_line); }
};

// Values that are written before they are read. They begin with a cache's line, so that each vector
// and each row of a tile lies in one.
template <typename T>
using AlignedValues = std::unique_ptr<T[], FreeAligned>;

template <typename T>
[[nodiscard]] AlignedValues<T> uninitialized(std::int64_t count) {
  const auto bytes = checked_multiply(count, std::int64_t{sizeof(T)});
  return AlignedValues<T>(
      static_cast<T*>(::operator new(static_cast<std::size_t>(bytes), cache_line)));
}

}  // namespace kolo
