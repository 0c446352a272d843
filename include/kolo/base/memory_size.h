#pragma once

#include <cstdint>
#include <optional>

namespace kolo {

// Bytes of memory that the machine has; none where the system doesn't say.
[[nodiscard]] std::optional<std::int64_t> installed_memory();

}  // namespace kolo
