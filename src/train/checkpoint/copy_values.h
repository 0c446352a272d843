#pragma once

#include <cstdint>
#include <span>

namespace kolo {

// Copies words and returns the largest, each without its first bit: of floating-point numbers that
// is the sign, and what is left is ordered like their size, with infinity after all numbers and NaN
// after infinity. `from` and `to` are equally long and don't overlap; `to` begins at a multiple of
// 16 bytes. It is written past the caches: what is copied for another thread would only push out
// what training needs.
[[nodiscard]] std::uint16_t copy_values(std::span<const std::uint16_t> from, std::uint16_t* to);
[[nodiscard]] std::uint32_t copy_values(std::span<const std::uint32_t> from, std::uint32_t* to);
[[nodiscard]] std::uint64_t copy_values(std::span<const std::uint64_t> from, std::uint64_t* to);

}  // namespace kolo
