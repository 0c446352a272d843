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

// The first two neighbours among names in natural order that bytes would order otherwise, as
// Python's sorted() does; none: both orders are the same.
[[nodiscard]] std::optional<std::pair<std::string, std::string>> find_names_out_of_bytes_order(
    std::span<const std::string> names);

}  // namespace kolo
