#include "kolo/train/observe/format.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace kolo {

namespace {

// Beyond this a double need not fit the integer that it is rounded to.
constexpr double largest_rounded = 9e18;

bool is_printable(double value) {
  return std::isfinite(value) && value >= 0 && value < largest_rounded;
}

// Three significant digits of a number below 1000.
std::string three_digits(double value) {
  if (value >= 99.95) return fmt::format("{:.0f}", value);
  if (value >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

}  // namespace

std::string format_count(std::int64_t count) {
  std::string text = fmt::format("{}", count);
  const std::size_t first_digit = count < 0 ? 1 : 0;
  for (std::size_t position = text.size(); position > first_digit + 3;) {
    position -= 3;
    text.insert(position, 1, ' ');
  }
  return text;
}

std::string format_rate(double per_second) {
  if (!is_printable(per_second)) return "?";
  if (per_second > 0 && per_second < 0.9995) return fmt::format("{:.3f}", per_second);
  if (per_second < 99.95) return three_digits(per_second);
  return format_count(std::llround(per_second));
}

std::string format_loss(double loss) {
  const double size = std::abs(loss);
  if (size >= 0.1 || size == 0 || !std::isfinite(loss)) return fmt::format("{:.4f}", loss);
  if (size < 1e-4) return fmt::format("{:.3e}", loss);
  const int zeros = static_cast<int>(-std::floor(std::log10(size))) - 1;  // after the point
  return fmt::format("{:.{}f}", loss, zeros + 4);
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (value >= 1023.5 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), units[unit]);
}

std::string format_moment(double time) {
  return fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(static_cast<std::time_t>(time)));
}

std::string format_clock(double seconds) {
  if (!is_printable(seconds)) return "--:--";
  const long long whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{:02}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;  // not the inside of a character
  }));
}

namespace {

constexpr auto none = std::string_view::npos;

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

// Places where a line that is too long may be broken.
struct Breaks {
  std::size_t wide = none;   // at two blanks, which stand between a line's parts; if not too early
  std::size_t words = none;  // between words
  std::size_t any = none;    // between a number and its unit too
  bool is_too_long = false;

  [[nodiscard]] std::size_t best() const {
    return wide != none ? wide : words != none ? words : any;
  }
};

// `first`: end of the indentation.
Breaks find_breaks(std::string_view line, std::size_t first, std::size_t columns) {
  Breaks breaks;
  std::size_t taken = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '\x1b') {
      at = std::min(line.find('m', at), line.size() - 1);
      continue;
    }
    const bool is_space = line[at] == ' ' && at > first;
    if (is_space) {
      breaks.any = at;
      const bool is_wide = line[at - 1] == ' ' || line.substr(at + 1).starts_with(' ');
      if (is_wide && taken >= columns / 2) breaks.wide = at;
      if (is_wide || !is_digit(line[at - 1])) breaks.words = at;
    }
    const bool starts_letter = (static_cast<unsigned char>(line[at]) & 0xC0U) != 0x80U;
    if (starts_letter && ++taken > columns && !is_space) {
      breaks.is_too_long = true;
      if (breaks.any != none) return breaks;
    }
  }
  return breaks;
}

// Blanks at a break vanish. A terminal that is hardly wider than the indentation has no room for
// it.
void wrap_line(std::string& wrapped, std::string_view line, std::size_t width, std::size_t indent) {
  if (indent >= width / 2) indent = 0;
  std::size_t columns = width;
  for (std::size_t first = std::min(line.find_first_not_of(' '), line.size());;) {
    const auto breaks = find_breaks(line, first, columns);
    const auto at = breaks.best();
    const auto next = at == none ? none : line.find_first_not_of(' ', at);
    if (!breaks.is_too_long || next == none) break;
    wrapped += line.substr(0, line.find_last_not_of(' ', at) + 1);
    wrapped += '\n' + std::string(indent, ' ');
    line.remove_prefix(next);
    columns = width - indent;
    first = 0;
  }
  wrapped += line;
}

}  // namespace

std::string wrap(std::string_view text, int width, int indent) {
  if (width <= 0) return std::string(text);
  std::string wrapped;
  for (;;) {
    const auto end = text.find('\n');
    wrap_line(wrapped, text.substr(0, end), static_cast<std::size_t>(width),
              static_cast<std::size_t>(indent));
    if (end == none) return wrapped;
    wrapped += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace kolo
