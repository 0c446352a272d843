#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

// The order of names that people number: "s2" before "s10".
namespace kolo {

// Compares numbers within names by their value and all else byte by byte. A strict order of
// different names: of "s1" and "s01" the bytes decide.
[[nodiscard]] bool comes_before(std::string_view a, std::string_view b);

// Two neighbours among names in natural order that stand the other way round, or level, when the
// names are read in another way that is as good: with decimal fractions (0.25 and 0.5), with signs
// (-1 and -2), without regard to capitals. None: the names leave nothing open.
[[nodiscard]] std::optional<std::pair<std::string, std::string>> find_names_in_doubt(
    std::span<const std::string> names);

// The first two neighbours among names in natural order that bytes would order otherwise, as
// Python's sorted() does; none: both orders are the same.
[[nodiscard]] std::optional<std::pair<std::string, std::string>> find_names_out_of_bytes_order(
    std::span<const std::string> names);

}  // namespace kolo
