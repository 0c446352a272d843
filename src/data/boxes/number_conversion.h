#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kolo/data/npy.h"

namespace kolo {

// Writes numbers of `type`, which lie `stride` bytes apart from `from` on, as float, double or
// std::int64_t. Returns the first one that is finite and beyond the range of these; it and those
// after it are not written.
template <typename To>
[[nodiscard]] std::optional<std::size_t> convert_numbers(const NumberType& type,
                                                         const std::byte* from, std::int64_t stride,
                                                         std::span<To> to);

}  // namespace kolo
