#include "comm/messages.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

namespace kolo {

void print_line(std::string_view message) {
  const std::string line = fmt::format("kolo: {}\n", message);
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

namespace {

constexpr std::size_t most_ranges_shown = 6;

}  // namespace

std::string list_of_ranks(std::span<const int> ranks) {
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
