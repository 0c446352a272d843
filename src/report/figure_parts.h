#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kolo/report/figure.h"
#include "kolo/report/run_record.h"

namespace kolo {

// Parts of an optimizer step's time, in seconds; not_measured counts as nothing.
struct StepTime {
  std::string category;  // whose
  double whole = not_measured;
  double data_wait = not_measured;
  double exposed_communication = not_measured;
};

// The mean over a run's epochs. Its `whole` is not_measured where the run doesn't tell how long its
// epochs took and how many steps they had.
[[nodiscard]] StepTime step_time_of(const RunRecord& run);

// Stacked bars in milliseconds: computing, waiting for data, waiting for other ranks.
[[nodiscard]] Figure step_time_figure(const std::vector<StepTime>& times);

// For each run, how long it took until validation first reached an accuracy (a loss, where no run
// has an accuracy): targets along x, time since the run's first point along y. Without targets
// every new best value of a run is one. None when no run tells.
[[nodiscard]] std::optional<Figure> time_to_target_figure(std::span<const RunRecord> runs,
                                                          std::span<const double> targets);

// When the first point of all a run's curves was made, in seconds since 1970; not_measured when no
// point tells.
[[nodiscard]] double start_of(const RunRecord& run);

// A unit in which the longest of some times is easy to read.
struct TimeUnit {
  std::string name;  // "seconds"
  double seconds;    // of one
};

[[nodiscard]] TimeUnit unit_for(double longest_seconds);

// For the longest of the runs, from its first point to its last.
[[nodiscard]] TimeUnit unit_for(std::span<const RunRecord> runs);

// Values by x as a line with a mark at each point.
inline FigureSeries marked_line(std::string name, int colour,
                                const std::map<double, double>& values) {
  FigureSeries series{.name = std::move(name), .colour = colour, .marks = true};
  for (const auto& [x, y] : values) {
    series.x.push_back(x);
    series.y.push_back(y);
  }
  return series;
}

// Marked lines by name, in the order in which the names come.
class NamedLines {
 public:
  void add(const std::string& name, double x, double y) {
    auto line = std::ranges::find(lines_, name, &Line::first);
    if (line == lines_.end()) line = lines_.insert(line, {name, {}});
    line->second[x] = y;
  }
  [[nodiscard]] std::vector<FigureSeries> series() const {
    std::vector<FigureSeries> series;
    for (const auto& [name, values] : lines_)
      series.push_back(marked_line(name, run_colour(series.size()), values));
    return series;
  }

 private:
  using Line = std::pair<std::string, std::map<double, double>>;
  std::vector<Line> lines_;
};

// A curve's finite values; none without a curve.
inline std::vector<double> finite_values(const Curve* curve) {
  std::vector<double> values;
  if (curve != nullptr)
    for (const auto& point : curve->points)
      if (std::isfinite(point.value)) values.push_back(point.value);
  return values;
}

// Their sum; not_measured where there are none.
inline double sum_of(const Curve* curve) {
  const auto values = finite_values(curve);
  return values.empty() ? not_measured : std::accumulate(values.begin(), values.end(), 0.);
}

// The validations among which a run's best is looked for: those of a network that was trained,
// unless there are no others.
inline std::vector<CurvePoint> validations(const RunRecord& run, std::string_view quantity) {
  const auto* const curve = run.find(quantity, "validation");
  if (curve == nullptr) return {};
  const auto is_untrained = [](const CurvePoint& point) { return point.epoch == 0; };
  auto points = curve->points;
  if (!std::ranges::all_of(points, is_untrained)) std::erase_if(points, is_untrained);
  return points;
}

}  // namespace kolo
