#pragma once

#include <span>
#include <string>

namespace kolo {

// "0, 2-5, 9", shortened when it is long.
[[nodiscard]] std::string list_of_ranks(std::span<const int> ranks);

}  // namespace kolo
