#include "kolo/base/text.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/clock.h"

namespace kolo {

namespace {

// std::tolower depends on the locale.
char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

// Optimal string alignment; row i holds the distances of the first i letters of `a` to every
// beginning of `b`.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_previous(b.size() + 1), previous(b.size() + 1),
      current(b.size() + 1);
  std::iota(current.begin(), current.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_previous, previous);
    std::swap(previous, current);
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      current[j] =
          std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) current[j] = std::min(current[j], before_previous[j - 2] + 1);
    }
  }
  return current[b.size()];
}

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

// The digits at an offset of a name, without leading zeros; the offset moves behind them.
std::string_view take_number(std::string_view name, std::size_t& offset) {
  const auto begin = offset;
  while (offset < name.size() && is_digit(name[offset])) ++offset;
  auto digits = name.substr(begin, offset - begin);
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

std::string nearest(std::string_view word, std::span<const std::string> known) {
  std::string best;
  // One of two or three letters may be wrong; with two the word would be any other.
  const std::size_t most = word.size() < 4 ? 1 : std::max<std::size_t>(2, word.size() / 3);
  std::size_t best_distance = most + 1;
  for (const auto& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < std::max(word.size(), candidate.size())) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string quote(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::string quoted = "\"";
  for (const char letter : text.substr(0, longest)) {
    const auto code = static_cast<unsigned char>(letter);
    quoted += code < 0x20 || code == 0x7f ? '?' : letter;
  }
  return quoted + (text.size() > longest ? "...\"" : "\"");
}

std::string first_line_of(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), lower);
  return text;
}

std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char letter : text) word += letter == '\'' ? "'\\''" : std::string(1, letter);
  return word + "'";
}

std::string join(std::span<const std::string> words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words.begin(), words.end(), separator));
}

std::string join_first(std::span<const std::string> words, std::size_t most) {
  if (words.size() <= most) return join(words);
  return fmt::format("{} and {} more", join(words.first(most)), words.size() - most);
}

std::string counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

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

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace kolo
