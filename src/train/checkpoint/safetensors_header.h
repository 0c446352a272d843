#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <zlib.h>

#include "kolo/base/file.h"
#include "kolo/train/checkpoint/safetensors_listing.h"

// The JSON header of a safetensors file: text to entries and back.
namespace kolo {

// zlib's CRC-32 of what came before, 0 at the beginning, and these bytes.
[[nodiscard]] inline std::uint32_t checksum(std::uint32_t before,
                                            std::span<const std::byte> bytes) {
  if (bytes.empty()) return before;  // zlib begins anew where it is given no memory
  return static_cast<std::uint32_t>(
      ::crc32_z(before, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

// Bytes in front of the header: its length as a little-endian 64-bit number.
inline constexpr std::uint64_t safetensors_prefix_size = 8;
// Largest header that the format allows. Source: the reference implementation's MAX_HEADER_SIZE.
inline constexpr std::uint64_t safetensors_header_limit = 100'000'000;

// Place that a message begins with; tensor and field may be empty.
struct SafetensorsLocation {
  const std::filesystem::path& path;
  std::string_view tensor = {};
  std::string_view field = {};
};

[[noreturn]] void fail_safetensors(const SafetensorsLocation& location, const std::string& problem);

// A key of the header that is no tensor's name; it may hold texts, which are passed over.
inline constexpr std::string_view safetensors_metadata_key = "__metadata__";

// Error for a tensor of a type that can't be read.
void require_readable(const std::filesystem::path& path, const SafetensorsEntry& entry);

// Bytes of a dense tensor. Error: more than a file can have.
[[nodiscard]] std::uint64_t safetensors_byte_size(std::span<const std::int64_t> shape,
                                                  c10::ScalarType dtype);

// Reads length and header; the descriptor then stands at the start of the data. `crc32`, when
// given, gets the checksum of what was read.
[[nodiscard]] SafetensorsListing read_safetensors_header(const FileDescriptor& file,
                                                         const std::filesystem::path& path,
                                                         std::uint32_t* crc32 = nullptr);

// The header's text, padded with spaces to a multiple of eight bytes.
[[nodiscard]] std::string format_safetensors_header(const std::filesystem::path& path,
                                                    std::span<const SafetensorsEntry> entries);

// The indices of `entries` in the order of their data.
[[nodiscard]] std::vector<std::size_t> order_of_data(std::span<const SafetensorsEntry> entries);

}  // namespace kolo
