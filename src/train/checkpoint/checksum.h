#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <zlib.h>

namespace kolo {

// zlib's CRC-32 of what came before, 0 at the beginning, and these bytes.
[[nodiscard]] inline std::uint32_t checksum(std::uint32_t before,
                                            std::span<const std::byte> bytes) {
  if (bytes.empty()) return before;  // zlib begins anew where it is given no memory
  return static_cast<std::uint32_t>(
      ::crc32_z(before, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

}  // namespace kolo
