#include "report/time_to_target.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "kolo/report/palette.h"
#include "report/run_time.h"
#include "report/validation_curve.h"

namespace kolo {

namespace {

// What was better than all before it, and when.
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
      runs, [](const RunRecord& run) { return validation_curve(run, "accuracy") != nullptr; });
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
    FigureSeries series{.name = run.name, .x = {}, .y = {}, .spread = {}};
    series.colour = run_colour(number);
    series.marks = true;
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

}  // namespace kolo
