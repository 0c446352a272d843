#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kolo::parallel {

// 64 bits from all bytes, their order and their number; the same on every processor of one byte
// order.
[[nodiscard]] std::uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace kolo::parallel
