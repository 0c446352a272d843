#include "report/figure_pieces.h"

#include <algorithm>
#include <cmath>

namespace kolo {

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
