#pragma once

#include <span>
#include <string>
#include <string_view>

// How the room tells people something.
namespace kolo {

// "kolo: ..." on stderr, in one write, so that lines of several ranks don't mix. Where stderr is
// gone nobody reads.
void print_line(std::string_view message);

// "0, 2-5, 9", shortened when it is long.
[[nodiscard]] std::string list_of_ranks(std::span<const int> ranks);

}  // namespace kolo
