#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// Numbers and text for people to read.
namespace kolo {

// "938", "60 000", "-1 281 167": groups of three digits apart.
[[nodiscard]] std::string format_count(std::int64_t count);

// Three or more significant digits: "0.042", "3.14", "57.3", "938", "21 480"; "?" for what is not
// finite or negative.
[[nodiscard]] std::string format_rate(double per_second);

// A loss, of any size, with four decimals or four significant digits: "2.3026", "0.3121",
// "0.005123", "3.200e-06"; "nan" and "inf" as they are.
[[nodiscard]] std::string format_loss(double loss);

// "17 B", "1.50 KiB", "128 MiB", "2.30 GiB".
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

// Seconds since 1970 (wall_time()) as "2026-11-21 14:05 UTC".
[[nodiscard]] std::string format_moment(double time);

// "00:14", "12:05", "3:07:00"; "--:--" for what is not finite or negative.
[[nodiscard]] std::string format_clock(double seconds);

// Columns that UTF-8 text takes, every character taken for one column wide.
[[nodiscard]] std::size_t display_width(std::string_view text);

// Text for a terminal of `width` columns (0: as it is): long lines are broken between words, if
// possible not within a number and its unit ("60 000", "91.3 %"), and go on indented by `indent`.
// Escaped colours take no room.
[[nodiscard]] std::string wrap(std::string_view text, int width, int indent = 2);

}  // namespace kolo
