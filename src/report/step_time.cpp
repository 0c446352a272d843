#include "report/step_time.h"

#include <algorithm>
#include <cmath>

#include "kolo/report/palette.h"

namespace kolo {

namespace {

// Optimizer steps of the epochs of a curve with a value an epoch: of those before its first point
// as many as an epoch of them has on average.
double steps_of(const Curve& curve) {
  const auto& first = curve.points.front();
  const double before = first.epoch > 0 ? first.step * (1 - 1 / first.epoch) : 0;
  return curve.points.back().step - before;
}

double sum_of(const Curve* curve) {
  if (curve == nullptr) return not_measured;
  double sum = not_measured;
  for (const auto& point : curve->points) {
    if (std::isfinite(point.value)) sum = (std::isfinite(sum) ? sum : 0) + point.value;
  }
  return sum;
}

const Curve* epoch_curve(const RunRecord& run, std::string_view quantity) {
  const auto* const curve = run.find(quantity, "");
  return curve != nullptr ? curve : run.find(quantity, "training");
}

FigureSeries bars(std::string name, int colour) {
  return {.name = std::move(name), .x = {}, .y = {}, .spread = {}, .colour = colour};
}

}  // namespace

StepTime step_time_of(const RunRecord& run) {
  StepTime time{.category = run.name};
  const auto* const seconds = epoch_curve(run, "epoch_seconds");
  if (seconds == nullptr || seconds->points.empty()) return time;
  const double steps = steps_of(*seconds);
  if (!(steps > 0)) return time;
  time.whole = sum_of(seconds) / steps;
  time.data_wait = sum_of(epoch_curve(run, "data_wait_seconds")) / steps;
  time.exposed_communication = sum_of(epoch_curve(run, "exposed_communication_seconds")) / steps;
  return time;
}

Figure step_time_figure(const std::vector<StepTime>& times) {
  Figure figure{.id = "step-time",
                .title = "Where a step's time goes",
                .x_label = "",
                .y_label = "ms per step",
                .kind = Figure::Kind::stacked_bars};
  auto compute = bars("compute", compute_colour);
  auto wait = bars("waiting for data", data_wait_colour);
  auto exposed = bars("waiting for other ranks", communication_colour);
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
  // What can't be seen needs no place in the legend.
  double longest = 0;
  for (const auto& time : times) longest = std::fmax(longest, 1000 * time.whole);
  for (auto* const series : {&compute, &wait, &exposed}) {
    const bool is_shown =
        std::ranges::any_of(series->y, [=](double y) { return y > 0.001 * longest; });
    if (is_shown) figure.series.push_back(std::move(*series));
  }
  return figure;
}

}  // namespace kolo
