#pragma once

#include <cstdint>
#include <string_view>

namespace kolo {

// FNV-1a, 64 bits (Fowler, Noll, Vo): tells alike from different, against accidents alone. `before`
// is the fingerprint of what comes before these bytes.
[[nodiscard]] constexpr std::uint64_t fingerprint_of(std::string_view bytes,
                                                     std::uint64_t before = 0xcbf29ce484222325) {
  for (const char byte : bytes)
    before = (before ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return before;
}

}  // namespace kolo
