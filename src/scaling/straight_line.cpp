#include "scaling/straight_line.h"

namespace kolo {

Line rising_line(std::span<const LinePoint> points) {
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& point : points) {
    x += point.x;
    y += point.y;
    xx += point.x * point.x;
    xy += point.x * point.y;
  }
  const auto count = static_cast<double>(points.size());
  const Line through_origin = {0, xy / xx};
  const double spread = count * xx - x * x;
  if (spread <= 1e-12 * count * xx) return through_origin;
  const double slope = (count * xy - x * y) / spread;
  const double constant = (y - slope * x) / count;
  // Where the unbounded optimum is out of bounds, the bounded one lies on the bound that is
  // crossed.
  if (slope < 0) return {y / count, 0};
  if (constant < 0) return through_origin;
  return {constant, slope};
}

}  // namespace kolo
