#include "report/figure_parts.h"

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
  FigureSeries compute{.name = "compute", .colour = compute_colour};
  FigureSeries wait{.name = "waiting for data", .colour = data_wait_colour};
  FigureSeries exposed{.name = "waiting for other ranks", .colour = communication_colour};
  const auto add = [](FigureSeries& series, double seconds) {
    series.x.push_back(static_cast<double>(series.x.size()));
    series.y.push_back(std::isfinite(seconds) ? std::max(0.0, 1000 * seconds) : 0);
  };
  for (const auto& time : times) {
    const double data = std::isfinite(time.data_wait) ? time.data_wait : 0;
    const double ranks = std::isfinite(time.exposed_communication) ? time.exposed_communication : 0;
    figure.categories.push_back(time.category);
    add(compute, time.whole - data - ranks);
    add(wait, data);
    add(exposed, ranks);
  }
  // An invisible part needs no place in the legend.
  double longest = 0;
  for (const auto& time : times) longest = std::fmax(longest, 1000 * time.whole);
  for (auto* const series : {&compute, &wait, &exposed}) {
    const bool is_shown =
        std::ranges::any_of(series->y, [=](double y) { return y > 0.001 * longest; });
    if (is_shown) figure.series.push_back(std::move(*series));
  }
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
