#pragma once

#include <cstdint>

// What this process has in memory, as the system counts it: pages shared with others included.
namespace kolo {

// The most it ever had. Error when the system doesn't say.
[[nodiscard]] std::uint64_t peak_resident_bytes();

// What it has now, from /proc/self/statm. Error where that can't be read.
[[nodiscard]] std::uint64_t resident_bytes();

}  // namespace kolo
