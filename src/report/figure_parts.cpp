#include "report/figure_parts.h"

#include <cmath>

#include <fmt/format.h>

namespace kolo {

namespace {

// Optimizer steps of the epochs of a curve with a value per epoch: of those before its first point
// as many as an epoch of them has on average.
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

namespace {

// A value better than all before it, and its time.
struct Best {
  double value;
  double seconds;  // since the run's first point
};

struct Goal {
  std::string quantity;
  bool larger_is_better;
  double factor;  // from the value to what is shown
  std::string label;
};

std::vector<Best> bests_of(const RunRecord& run, const Goal& goal) {
  std::vector<Best> bests;
  const double start = start_of(run);
  for (const auto& point : validations(run, goal.quantity)) {
    const double seconds = point.time - start;
    if (!std::isfinite(point.value) || !std::isfinite(seconds)) continue;
    const bool is_better =
        bests.empty() || (goal.larger_is_better ? point.value > bests.back().value
                                                : point.value < bests.back().value);
    if (is_better) bests.push_back({point.value, seconds});
  }
  return bests;
}

double first_time(const std::vector<Best>& bests, const Goal& goal, double target) {
  const auto reached = std::ranges::find_if(bests, [&](const Best& best) {
    return goal.larger_is_better ? best.value >= target : best.value <= target;
  });
  return reached == bests.end() ? not_measured : reached->seconds;
}

bool has_accuracy(std::span<const RunRecord> runs) {
  return std::ranges::any_of(
      runs, [](const RunRecord& run) { return run.find("accuracy", "validation") != nullptr; });
}

// "run-a did not reach 95 %"
std::string missed(const std::string& run, const Goal& goal, double target) {
  const auto value = goal.larger_is_better ? fmt::format("{:.4g} %", goal.factor * target)
                                           : fmt::format("a loss of {:.4g}", target);
  return fmt::format("{} did not reach {}. ", run, value);
}

}  // namespace

std::optional<Figure> time_to_target_figure(std::span<const RunRecord> runs,
                                            std::span<const double> targets) {
  const Goal goal = has_accuracy(runs) ? Goal{"accuracy", true, 100, "validation accuracy, %"}
                                       : Goal{"loss", false, 1, "validation loss"};
  const auto unit = unit_for(runs);
  Figure figure{.id = goal.larger_is_better ? "time-to-accuracy" : "time-to-loss",
                .title = goal.larger_is_better ? "Time to an accuracy" : "Time to a loss",
                .x_label = goal.label,
                .y_label = unit.name + " since the start"};
  for (std::size_t number = 0; number < runs.size(); ++number) {
    const auto& run = runs[number];
    const auto bests = bests_of(run, goal);
    if (bests.empty()) continue;
    FigureSeries series{.name = run.name, .colour = run_colour(number), .marks = true};
    const auto add = [&](double target, double seconds) {
      series.x.push_back(goal.factor * target);
      series.y.push_back(seconds / unit.seconds);
    };
    for (const double target : targets) {
      const double seconds = first_time(bests, goal, target);
      add(target, seconds);
      if (!std::isfinite(seconds)) figure.note += missed(run.name, goal, target);
    }
    if (targets.empty()) {
      for (const auto& best : bests) add(best.value, best.seconds);
    }
    figure.series.push_back(std::move(series));
  }
  if (figure.series.empty()) return std::nullopt;
  if (figure.note.ends_with(' ')) figure.note.pop_back();
  return figure;
}

namespace {

struct Span {
  double first = not_measured, last = not_measured;
};

Span span_of(const RunRecord& run) {
  Span span;
  for (const auto& curve : run.curves) {
    for (const auto& point : curve.points) {
      if (!std::isfinite(point.time)) continue;
      span.first = std::fmin(span.first, point.time);  // the other one when one is not a number
      span.last = std::fmax(span.last, point.time);
    }
  }
  return span;
}

}  // namespace

double start_of(const RunRecord& run) {
  return span_of(run).first;
}

TimeUnit unit_for(double longest_seconds) {
  if (longest_seconds < 300) return {"seconds", 1};
  if (longest_seconds < 3 * 3600) return {"minutes", 60};
  if (longest_seconds < 72 * 3600) return {"hours", 3600};
  return {"days", 24 * 3600};
}

TimeUnit unit_for(std::span<const RunRecord> runs) {
  double longest = 0;
  for (const auto& run : runs) {
    const auto span = span_of(run);
    longest = std::fmax(longest, span.last - span.first);
  }
  return unit_for(longest);
}

}  // namespace kolo
