#include "report/figure_pieces.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kolo {

namespace {

// Optimizer steps of the epochs of a curve with a value per epoch. Steps before its first epoch are
// estimated by that epoch's average.
double steps_of(const Curve& curve) {
  const auto& first = curve.points.front();
  const double before = first.epoch > 0 ? first.step * (1 - 1 / first.epoch) : 0;
  return curve.points.back().step - before;
}

}  // namespace

StepTime step_time_of(const RunRecord& run) {
  StepTime time{.category = run.name};
  const auto* const seconds = run.find("epoch_seconds", "");
  if (seconds == nullptr || seconds->points.empty()) return time;
  const double steps = steps_of(*seconds);
  if (!(steps > 0)) return time;
  time.whole = sum_of(seconds) / steps;
  time.data_wait = sum_of(run.find("data_wait_seconds", "")) / steps;
  time.exposed_communication = sum_of(run.find("exposed_communication_seconds", "")) / steps;
  return time;
}

Figure step_time_figure(const std::vector<StepTime>& times) {
  Figure figure{.id = "step-time",
                .title = "Where a step's time goes",
                .x_label = "",
                .y_label = "ms per step",
                .kind = Figure::Kind::stacked_bars};
  double longest = 0;
  for (const auto& time : times) {
    figure.categories.push_back(time.category);
    longest = std::fmax(longest, 1000 * time.whole);
  }
  const auto known = [](double seconds) { return std::isfinite(seconds) ? seconds : 0; };
  const auto add = [&](std::string name, int colour, const auto& seconds_of) {
    FigureSeries series{.name = std::move(name), .colour = colour};
    for (const auto& time : times) {
      series.x.push_back(static_cast<double>(series.x.size()));
      series.y.push_back(std::max(0.0, 1000 * known(seconds_of(time))));
    }
    // An invisible part needs no place in the legend.
    if (std::ranges::any_of(series.y, [&](double y) { return y > 0.001 * longest; }))
      figure.series.push_back(std::move(series));
  };
  add("compute", compute_colour, [&](const StepTime& time) {
    return time.whole - known(time.data_wait) - known(time.exposed_communication);
  });
  add("waiting for data", data_wait_colour, [](const StepTime& time) { return time.data_wait; });
  add("waiting for other ranks", communication_colour,
      [](const StepTime& time) { return time.exposed_communication; });
  return figure;
}

void NamedLines::add(const std::string& name, double x, double y, double spread) {
  auto line = std::ranges::find(lines_, name, &Line::first);
  if (line == lines_.end()) line = lines_.insert(line, {name, {}});
  line->second[x] = {y, spread};
}

std::vector<FigureSeries> NamedLines::series() const {
  std::vector<FigureSeries> all;
  for (const auto& [name, values] : lines_) {
    FigureSeries series{.name = name, .colour = static_cast<int>(all.size()), .marks = true};
    for (const auto& [x, value] : values) {
      series.x.push_back(x);
      series.y.push_back(value.y);
      series.spread.push_back(value.spread);
    }
    all.push_back(std::move(series));
  }
  return all;
}

std::vector<double> finite_values(const Curve* curve) {
  std::vector<double> values;
  if (curve != nullptr)
    for (const auto& point : curve->points)
      if (std::isfinite(point.value)) values.push_back(point.value);
  return values;
}

double sum_of(const Curve* curve) {
  const auto values = finite_values(curve);
  return values.empty() ? not_measured : std::accumulate(values.begin(), values.end(), 0.);
}

std::vector<CurvePoint> validations(const RunRecord& run, std::string_view quantity) {
  const auto* const curve = run.find(quantity, "validation");
  if (curve == nullptr) return {};
  const auto is_untrained = [](const CurvePoint& point) { return point.epoch == 0; };
  auto points = curve->points;
  if (!std::ranges::all_of(points, is_untrained)) std::erase_if(points, is_untrained);
  return points;
}

bool is_better_larger(std::string_view quantity) {
  return quantity != "loss";
}

double best_validation(const RunRecord& run, std::string_view quantity) {
  double best = not_measured;
  for (const auto& point : validations(run, quantity)) {
    if (!std::isfinite(point.value)) continue;
    best = is_better_larger(quantity) ? std::fmax(best, point.value) : std::fmin(best, point.value);
  }
  return best;
}

}  // namespace kolo
