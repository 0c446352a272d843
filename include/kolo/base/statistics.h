#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace kolo {

// A mean and the standard deviation of single values (n - 1 in the denominator); the deviation of
// one alone is 0.
struct MeanDeviation {
  double mean = 0, deviation = 0;
};

// At least one value.
[[nodiscard]] inline MeanDeviation mean_and_deviation(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, values.size() < 2 ? 0 : std::sqrt(squares / (count - 1))};
}

// At least one value; of an even number, the upper one of the two in the middle.
[[nodiscard]] inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace kolo
