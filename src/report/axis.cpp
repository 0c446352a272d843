#include "report/axis.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace kolo {

namespace {

// Values so near each other, relative to their size, are one and the noise of float32. Whole ones,
// as steps, have no noise.
constexpr double smallest_span = 1e-5;

bool is_one_value(const Extent& extent, bool whole = false) {
  if (whole) return extent.largest == extent.smallest;
  const double size = std::max(std::abs(extent.smallest), std::abs(extent.largest));
  return extent.largest - extent.smallest <= smallest_span * size;
}

// 1, 2 or 5 times a power of ten, and not below `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1., 2., 5.})
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

// The multiples of a step from `low` to `high`, computed one by one so that no error adds up.
std::vector<double> multiples(double step, double low, double high) {
  constexpr double rounding = 1e-6;
  std::vector<double> values;
  const double last = std::floor(high / step + rounding);
  for (double count = std::ceil(low / step - rounding); count <= last; ++count)
    values.push_back(count * step);
  return values;
}

// Ticks of a logarithmic axis from these powers of ten.
std::vector<double> ticks_at_factors(const std::vector<double>& factors, double low, double high,
                                     double powers_apart) {
  std::vector<double> ticks;
  const double last = std::floor(std::log10(high));
  for (double power = std::floor(std::log10(low)); power <= last; ++power) {
    if (std::fmod(power, powers_apart) != 0) continue;
    for (const double factor : factors) {
      const double tick = factor * std::pow(10, power);
      if (tick >= low && tick <= high) ticks.push_back(tick);
    }
  }
  return ticks;
}

// "12300" is "12 300".
std::string grouped(std::string digits) {
  const auto point = std::min(digits.find('.'), digits.size());
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t place = point; place > first + 3;) {
    place -= 3;
    digits.insert(place, 1, ' ');
  }
  return digits;
}

// Without zeros at its end.
std::string trimmed(std::string digits) {
  if (digits.find('.') == std::string::npos) return digits;
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.ends_with('.')) digits.pop_back();
  return digits;
}

std::string with_exponent(double value) {
  if (value == 0) return "0";
  const auto text = fmt::format("{:.3e}", value);
  const auto e = text.find('e');
  return fmt::format("{}e{}", trimmed(text.substr(0, e)), std::stoi(text.substr(e + 1)));
}

std::string plain(double value) {
  constexpr int significant = 7, most_decimals = 12;
  const double size = std::abs(value);
  const int whole = size >= 1 ? static_cast<int>(std::floor(std::log10(size))) + 1 : 0;
  const int zeros = size > 0 && size < 1 ? -static_cast<int>(std::floor(std::log10(size))) - 1 : 0;
  const auto text = trimmed(
      fmt::format("{:.{}f}", value, std::clamp(significant - whole + zeros, 0, most_decimals)));
  return text == "-0" ? "0" : grouped(text);
}

bool needs_exponent(double largest) {
  return largest > 0 && (largest < 1e-3 || largest >= 1e7);
}

}  // namespace

void Extent::add(double value) {
  if (!std::isfinite(value)) return;
  smallest = std::min(smallest, value);
  largest = std::max(largest, value);
}

Axis linear_axis(const Extent& extent, const LinearAxisOptions& options) {
  constexpr double most_ticks = 7;
  if (extent.is_empty()) return {0, 1, {0, 1}};
  double low = extent.smallest, high = extent.largest;
  if (is_one_value(extent, options.whole)) {
    low = std::min(0., 2 * extent.smallest);
    high = std::max(0., 2 * extent.largest);
    if (low == high) high = 1;
  } else {
    const double more = options.room * (high - low);
    // Zero is shown where it is near.
    low = low >= 0 && low < 0.25 * high ? 0 : low - more;
    high = high <= 0 && high > 0.25 * low ? 0 : high + more;
  }
  if (extent.largest <= options.most) high = std::min(high, options.most);
  double step = round_step((high - low) / most_ticks);
  if (options.whole) step = std::max(1., step);
  low = step * std::floor(low / step + 1e-6);
  high = step * std::ceil(high / step - 1e-6);
  return {low, high, multiples(step, low, high)};
}

Axis logarithmic_axis(const Extent& extent) {
  constexpr double margin = 1.25, most_ticks = 8;
  if (extent.is_empty() || extent.smallest <= 0) return {1, 10, {1, 10}};
  const double around = is_one_value(extent) ? 2.5 : margin;
  const double low = extent.smallest / around, high = extent.largest * around;
  const double powers = std::log10(high / low);
  if (powers <= 1) return {low, high, multiples(round_step((high - low) / most_ticks), low, high)};
  if (powers <= 3.5) return {low, high, ticks_at_factors({1, 2, 5}, low, high, 1)};
  return {low, high, ticks_at_factors({1}, low, high, std::ceil(powers / most_ticks))};
}

Axis time_axis(const Extent& extent) {
  constexpr double steps[] = {1,     2,     5,      10,     15,      30,      60,    120,
                              300,   600,   900,    1800,   3600,    7200,    10800, 21600,
                              43200, 86400, 172800, 604800, 2592000, 31536000};
  constexpr double most_ticks = 6, shortest = 4;
  if (extent.is_empty()) return {0, 60, {0, 60}};
  const double missing = std::max(0., shortest - (extent.largest - extent.smallest)) / 2;
  const double low = extent.smallest - missing, high = extent.largest + missing;
  const auto* const step = std::ranges::find_if(
      steps, [&](double candidate) { return (high - low) / candidate <= most_ticks; });
  return {low, high, multiples(step == std::end(steps) ? *(step - 1) : *step, low, high)};
}

std::string tick_label(double value) {
  return needs_exponent(std::abs(value)) ? with_exponent(value) : plain(value);
}

std::vector<std::string> tick_labels(const std::vector<double>& ticks) {
  double largest = 0;
  for (const double tick : ticks) largest = std::max(largest, std::abs(tick));
  const auto labels = [&](std::string (*label)(double)) {
    std::vector<std::string> made;
    for (const double tick : ticks) made.push_back(label(tick));
    return made;
  };
  if (!needs_exponent(largest)) return labels(plain);
  const auto exponents = labels(with_exponent);
  const bool tell_apart = std::ranges::adjacent_find(exponents) == exponents.end();
  return tell_apart || largest < 1 || largest >= 1e15 ? exponents : labels(plain);
}

}  // namespace kolo
