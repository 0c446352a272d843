#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

// Messages to people.
namespace kolo {

inline constexpr std::string_view same_order =
    "all ranks must make the same calls in the same order";

// Writes "kolo: ..." to stderr, in one call, so that lines of several ranks don't mix.
inline void print_line(std::string_view message) {
  const std::string line = fmt::format("kolo: {}\n", message);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

// "0, 2-5, 9", shortened when it is long.
[[nodiscard]] inline std::string list_of_ranks(std::span<const int> ranks) {
  constexpr std::size_t most_ranges_shown = 6;
  std::vector<std::string> ranges;
  std::size_t begin = 0;
  while (begin < ranks.size() && ranges.size() < most_ranges_shown) {
    std::size_t end = begin + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    ranges.push_back(end == begin + 1 ? fmt::format("{}", ranks[begin])
                                      : fmt::format("{}-{}", ranks[begin], ranks[end - 1]));
    begin = end;
  }
  const auto list = fmt::format("{}", fmt::join(ranges, ", "));
  return begin == ranks.size() ? list : fmt::format("{} and {} more", list, ranks.size() - begin);
}

}  // namespace kolo
