#pragma once

#include <span>

namespace kolo {

struct LinePoint {
  double x = 0, y = 0;
};

struct Line {
  double constant = 0, slope = 0;
  [[nodiscard]] double at(double x) const { return constant + slope * x; }
};

// The line with constant and slope of at least 0 that is nearest to the points, by the squares of
// the distances. Through the origin where all x are equal. x and y are at least 0, and some x
// above.
[[nodiscard]] Line rising_line(std::span<const LinePoint> points);

}  // namespace kolo
