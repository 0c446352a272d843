#include "base/natural_order.h"

#include <algorithm>
#include <cstddef>

namespace kolo {

namespace {

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

// The digits at a place of a name, without leading zeros; the place moves behind them.
std::string_view take_number(std::string_view name, std::size_t& place) {
  const auto begin = place;
  while (place < name.size() && is_digit(name[place])) ++place;
  auto digits = name.substr(begin, place - begin);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

int compare_names(std::string_view a, std::string_view b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const auto left = take_number(a, i), right = take_number(b, j);
      if (left.size() != right.size()) return left.size() < right.size() ? -1 : 1;
      if (const int order = left.compare(right); order != 0) return order;
      continue;
    }
    const auto one = static_cast<unsigned char>(a[i++]), other = static_cast<unsigned char>(b[j++]);
    if (one != other) return one < other ? -1 : 1;
  }
  return (j < b.size() ? -1 : 0) + (i < a.size() ? 1 : 0);
}

}  // namespace

bool comes_before(std::string_view a, std::string_view b) {
  const int order = compare_names(a, b);
  return order != 0 ? order < 0 : a < b;
}

std::optional<std::pair<std::string, std::string>> find_names_out_of_bytes_order(
    std::span<const std::string> names) {
  const auto second = std::ranges::adjacent_find(names, std::ranges::greater());
  if (second == names.end()) return std::nullopt;
  return std::pair(*second, *(second + 1));
}

}  // namespace kolo
