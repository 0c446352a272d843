#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

// Text that users write: numbers in it, and words for messages about unknown names: "unknown model
// "mnist_nett", did you mean "mnist_net"?".
namespace kolo {

// A decimal number and nothing else, finite and within T's range: none for "1 000", "0x10", "3.5"
// as a whole number, "-1" without a sign to have. A leading zero is refused, because 010 is eight
// for some and ten for others; a leading plus is not.
template <typename T>
[[nodiscard]] std::optional<T> parse_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.starts_with('+')) return std::nullopt;
  if constexpr (std::is_integral_v<T>) {
    const auto digits = text.substr(text.starts_with('-') ? 1 : 0);
    if (digits.size() > 1 && digits.starts_with('0')) return std::nullopt;
  }
  T number{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc{} || result.ptr != end) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(number)) return std::nullopt;
  }
  return number;
}

// The known word that `word` most likely stands for, or "" when none is near. The distance
// (Damerau-Levenshtein, each letter edited at most once, regardless of case) is at most the larger
// of 2 and a third of the word, and less than the whole word. The first of equally near words is
// returned.
[[nodiscard]] std::string nearest(std::string_view word, std::span<const std::string> known);

// `"abc"`: control characters replaced and long text cut, so that a message stays one readable
// line.
[[nodiscard]] std::string quote(std::string_view text);

// Without its end of line. Messages of LibTorch's go on with a stack trace.
[[nodiscard]] std::string first_line_of(std::string_view text);

// Capital letters of English made small, whatever the locale.
[[nodiscard]] std::string lower_case(std::string text);

// 'abc': any text as one word of a shell's line.
[[nodiscard]] std::string shell_word(std::string_view text);

// "a, b, c"; "" for no words.
[[nodiscard]] std::string join(std::span<const std::string> words,
                               std::string_view separator = ", ");

// The first `most` words: "a, b and 3 more".
[[nodiscard]] std::string join_first(std::span<const std::string> words, std::size_t most = 5);

// "1 rank", "4 ranks".
[[nodiscard]] std::string counted(std::int64_t count, std::string_view what);

// The order of names that people number: "s2" before "s10".

// Compares numbers within names by their value and all else byte by byte. A strict order of
// different names: of "s1" and "s01" the bytes decide.
[[nodiscard]] bool comes_before(std::string_view a, std::string_view b);

// The first two neighbours among names in natural order that bytes would order otherwise, as
// Python's sorted() does; none: both orders are the same.
[[nodiscard]] std::optional<std::pair<std::string, std::string>> find_names_out_of_bytes_order(
    std::span<const std::string> names);

}  // namespace kolo
