#include "report/hidden_lines.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/axis.h"

namespace kolo {

namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

double scaled(double value, bool is_logarithmic) {
  return is_logarithmic ? std::log(value) : value;
}

double height_of(const Figure& figure) {
  Extent extent;
  for (const auto& series : figure.series)
    for (const double y : series.y) extent.add(scaled(y, figure.y_logarithmic));
  return extent.is_empty() ? 0 : extent.largest - extent.smallest;
}

// Where a line is at x; unknown beyond its ends and in its gaps. Points in order of x.
double height_at(const Figure& figure, const FigureSeries& line, double x) {
  const auto after = std::ranges::lower_bound(line.x, x);
  if (after == line.x.end()) return unknown;
  const auto place = static_cast<std::size_t>(after - line.x.begin());
  const double y_after = scaled(line.y[place], figure.y_logarithmic);
  if (*after == x) return y_after;
  if (place == 0) return unknown;
  const double x_before = scaled(line.x[place - 1], figure.x_logarithmic);
  const double x_after = scaled(*after, figure.x_logarithmic);
  const double y_before = scaled(line.y[place - 1], figure.y_logarithmic);
  const double share = (scaled(x, figure.x_logarithmic) - x_before) / (x_after - x_before);
  return y_before + share * (y_after - y_before);
}

bool lies_on(const Figure& figure, const FigureSeries& other, const FigureSeries& line,
             double tolerance) {
  bool has_points = false;
  for (std::size_t i = 0; i < line.y.size(); ++i) {
    if (!std::isfinite(line.x[i]) || !std::isfinite(line.y[i])) continue;
    const double distance =
        height_at(figure, other, line.x[i]) - scaled(line.y[i], figure.y_logarithmic);
    if (!(std::abs(distance) <= tolerance)) return false;
    has_points = true;
  }
  return has_points;
}

// What height_at() needs; times to a target come in another order.
bool is_in_order(const FigureSeries& line) {
  return std::ranges::all_of(line.x, [](double x) { return std::isfinite(x); }) &&
         std::ranges::is_sorted(line.x);
}

}  // namespace

void mark_hidden_lines(Figure& figure) {
  if (figure.kind != Figure::Kind::lines) return;
  constexpr double line_width = 0.006;  // of the figure's height
  constexpr int most = 2;
  const double tolerance = line_width * height_of(figure);
  bool are_any = false;
  for (std::size_t i = 0; i < figure.series.size(); ++i) {
    for (std::size_t j = i + 1; j < figure.series.size() && figure.series[i].hidden_by < most;
         ++j) {
      const auto& other = figure.series[j];
      if (is_in_order(other) && lies_on(figure, other, figure.series[i], tolerance))
        ++figure.series[i].hidden_by;
    }
    are_any = are_any || figure.series[i].hidden_by > 0;
  }
  if (!are_any) return;
  figure.note += figure.note.empty() ? "" : " ";
  figure.note += "A line that others lie on is drawn wider.";
}

}  // namespace kolo
