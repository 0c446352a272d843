#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "kolo/checkpoint/safetensors.h"

// The JSON header of a safetensors file: text to entries and back.
namespace kolo {

// Bytes in front of the header: its length as a little-endian 64-bit number.
inline constexpr std::uint64_t safetensors_prefix_size = 8;
// What the format allows for a header. Source: the reference implementation's MAX_HEADER_SIZE.
inline constexpr std::uint64_t safetensors_header_limit = 100'000'000;

// What messages about a tensor or field begin with; tensor and field may be empty.
struct SafetensorsPlace {
  const std::filesystem::path& path;
  std::string_view tensor = {};
  std::string_view field = {};
};

[[noreturn]] void fail_safetensors(const SafetensorsPlace& place, const std::string& problem);

// Parses and checks a header whose data takes `data_size` bytes.
[[nodiscard]] SafetensorsListing parse_safetensors_header(const std::filesystem::path& path,
                                                          std::string_view text,
                                                          std::uint64_t data_size);

// Entries for tensors to be written, with their places in the data, in the given order.
[[nodiscard]] std::vector<SafetensorsEntry> plan_safetensors(const std::filesystem::path& path,
                                                             std::span<const NamedTensor> tensors);

// The header's text, padded with spaces to a multiple of eight bytes.
[[nodiscard]] std::string format_safetensors_header(
    const std::filesystem::path& path, std::span<const SafetensorsEntry> entries,
    const std::map<std::string, std::string>& metadata);

// The indices of `entries` in the order of their data.
[[nodiscard]] std::vector<std::size_t> order_of_data(std::span<const SafetensorsEntry> entries);

}  // namespace kolo
