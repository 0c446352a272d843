#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kolo/comm/data_type.h"

// Memory as elements of a type that is known only when the program runs.
namespace kolo {

inline std::byte* at(void* data, std::int64_t element, DataType type) {
  return static_cast<std::byte*>(data) + static_cast<std::size_t>(element) * size_of(type);
}

inline const std::byte* at(const void* data, std::int64_t element, DataType type) {
  return static_cast<const std::byte*>(data) + static_cast<std::size_t>(element) * size_of(type);
}

// Nothing for a count below 1. The places may be the same.
inline void copy(std::byte* to, const std::byte* from, std::int64_t elements, DataType type) {
  if (elements > 0 && to != from)
    std::memcpy(to, from, static_cast<std::size_t>(elements) * size_of(type));
}

}  // namespace kolo
