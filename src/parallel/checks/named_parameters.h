#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kolo::parallel {

// "rank 2", "ranks 1, 3"
template <typename Ranks>
[[nodiscard]] std::string ranks_text(const Ranks& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

// Parameters of which something is wrong on some ranks, for a message: the first ten by name, and
// how many there are besides.
class NamedParameters {
 public:
  void add(std::string_view name, const std::vector<std::size_t>& ranks) {
    if (named_.size() < most_named)
      named_.push_back(fmt::format("{} ({})", name, ranks_text(ranks)));
    else
      ++others_;
  }

  // "first.weight (ranks 1, 2), second.bias (rank 1)"
  [[nodiscard]] std::string text() const {
    auto text = fmt::format("{}", fmt::join(named_, ", "));
    if (others_ > 0) text += fmt::format(", {} more", others_);
    return text;
  }

 private:
  static constexpr std::size_t most_named = 10;
  std::vector<std::string> named_;
  std::size_t others_ = 0;
};

}  // namespace kolo::parallel
