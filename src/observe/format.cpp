#include "kolo/observe/format.h"

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
  for (std::size_t place = text.size(); place > first_digit + 3;) {
    place -= 3;
    text.insert(place, 1, ' ');
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

}  // namespace kolo
