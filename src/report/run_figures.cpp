#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "kolo/report/figure.h"
#include "report/figure_pieces.h"

namespace kolo {

namespace {

// Presentation of a quantity.
struct Presentation {
  std::string id, title, y_label;
  double factor = 1;
  double offset = 0;  // added after the factor
  // Compares the runs' validation curves, one a run, on a logarithmic axis.
  bool compares_validations = false;
  bool smoothed = false;  // see Figure
};

// A loss that falls steeply is an L on a linear axis.
bool spans_decades(const Figure& figure) {
  constexpr double wide = 31.6;  // one and a half powers of ten
  double least = not_measured, most = not_measured;
  for (const auto& series : figure.series) {
    for (const double y : series.y) {
      least = std::fmin(least, y);  // the other one when one is not a number
      most = std::fmax(most, y);
    }
  }
  return least > 0 && most > wide * least;
}

// Limits per curve: more points can't be told apart, and make pages slow.
constexpr std::size_t most_points = 1500;
constexpr std::size_t most_marks = 60;

// Selects the curves of a figure.
using CurveFilter = std::function<bool(const Curve&)>;

// A unit in which the longest of some times is easy to read.
struct TimeUnit {
  std::string name;  // "seconds"
  double seconds;    // of one
};

TimeUnit unit_for(std::span<const RunRecord> runs) {
  double longest = 0;
  for (const auto& run : runs)
    for (const auto& curve : run.curves)
      for (const auto& point : curve.points) longest = std::fmax(longest, point.elapsed);
  if (longest < 300) return {"seconds", 1};
  if (longest < 3 * 3600) return {"minutes", 60};
  if (longest < 72 * 3600) return {"hours", 3600};
  return {"days", 24 * 3600};
}

// Makes figures of the same runs, with places on every axis that some run knows.
class CurveFigures {
 public:
  explicit CurveFigures(std::span<const RunRecord> runs)
      : runs_(runs), axes_(known_axes(runs)), unit_(unit_for(runs)) {}

  // Adds the figure to the group unless no run has a curve that `is_wanted`.
  void add(FigureGroup& group, const Presentation& presentation,
           const CurveFilter& is_wanted) const {
    Figure figure{.id = presentation.id,
                  .title = presentation.title,
                  .x_label = "",
                  .y_label = presentation.y_label,
                  .y_logarithmic = presentation.compares_validations,
                  .smoothed = presentation.smoothed};
    for (const auto axis : axes_) figure.x_labels[axis] = axis_label(axis);
    bool is_thinned = false;
    for (std::size_t number = 0; number < runs_.size(); ++number) {
      for (const auto& curve : runs_[number].curves) {
        if (!is_wanted(curve)) continue;
        is_thinned = is_thinned || curve.points.size() > most_points;
        auto series = series_of(curve, number, presentation);
        if (std::ranges::any_of(series.y, [](double y) { return std::isfinite(y); }))
          figure.series.push_back(std::move(series));
      }
    }
    if (figure.series.empty()) return;
    if (figure.y_label == "loss" && spans_decades(figure)) figure.y_logarithmic = true;
    if (is_thinned) figure.note = "Of long curves the smallest and largest values are drawn.";
    group.figures.push_back(std::move(figure));
  }

  // Adds a quantity's curve of epochs and, as a figure of its own, that of steps.
  void add_known(FigureGroup& group, std::string_view quantity,
                 const Presentation& presentation) const {
    add(group, presentation,
        [&](const Curve& curve) { return curve.quantity == quantity && !curve.by_step; });
    auto by_step = presentation;
    by_step.id += "-by-step";
    by_step.title += ", step by step";
    by_step.smoothed = true;
    add(group, by_step,
        [&](const Curve& curve) { return curve.quantity == quantity && curve.by_step; });
  }

 private:
  [[nodiscard]] std::string axis_label(CurveAxis axis) const {
    if (axis == CurveAxis::relative) return unit_.name + " since the start";
    return axis == CurveAxis::wall ? "time (UTC)" : std::string(kolo::name_of(axis));
  }

  [[nodiscard]] double position_on(CurveAxis axis, const CurvePoint& point) const {
    if (axis == CurveAxis::epoch) return point.epoch;
    if (axis == CurveAxis::step) return point.step;
    if (axis == CurveAxis::relative) return point.elapsed / unit_.seconds;
    return std::round(100 * point.time) / 100;
  }

  // "training", or among several runs "first, training".
  [[nodiscard]] std::string name_of(const Curve& curve, std::size_t number) const {
    if (curve.split.empty()) return runs_[number].name;
    return runs_.size() == 1 ? curve.split : fmt::format("{}, {}", runs_[number].name, curve.split);
  }

  [[nodiscard]] FigureSeries series_of(const Curve& curve, std::size_t number,
                                       const Presentation& presentation) const {
    FigureSeries series{
        .name = presentation.compares_validations ? runs_[number].name : name_of(curve, number),
        .colour = static_cast<int>(number),
        .dashed = curve.split == "training" && !curve.by_step};  // by step it is alone, and dense
    for (const auto& point : thinned(curve.points, most_points)) {
      for (const auto axis : axes_) series.x_on[axis].push_back(position_on(axis, point));
      series.y.push_back(presentation.factor * point.value + presentation.offset);
    }
    series.marks = !curve.by_step && series.y.size() <= most_marks;
    return series;
  }

  std::span<const RunRecord> runs_;
  std::vector<CurveAxis> axes_;
  TimeUnit unit_;
};

// Adds the validation curves alone, as errors or losses: a logarithmic axis tells curves apart that
// end close together.
void add_comparison(const CurveFigures& figures, FigureGroup& group,
                    std::span<const RunRecord> runs) {
  const bool has_accuracy = std::ranges::any_of(
      runs, [](const RunRecord& run) { return run.find("accuracy", "validation") != nullptr; });
  const Presentation presentation =
      has_accuracy
          ? Presentation{"validation-error", "Validation error", "error, %", -100, 100, true}
          : Presentation{"validation-loss", "Validation loss", "loss", 1, 0, true};
  figures.add(group, presentation, [&](const Curve& curve) {
    return curve.quantity == (has_accuracy ? "accuracy" : "loss") && curve.split == "validation" &&
           !curve.by_step;
  });
}

FigureGroup learning(const CurveFigures& figures, std::span<const RunRecord> runs) {
  FigureGroup group{"Learning", {}};
  figures.add_known(group, "loss", {"loss", "Loss", "loss"});
  figures.add_known(group, "accuracy", {"accuracy", "Accuracy", "accuracy, %", 100});
  if (runs.size() > 1) add_comparison(figures, group, runs);
  figures.add_known(group, "top_accuracy",
                    {"top-accuracy", "Top-5 accuracy", "top-5 accuracy, %", 100});
  // The learning rate by step says more than that by epoch, if it was recorded.
  std::set<const Curve*> finest;
  for (const auto& run : runs) {
    const auto* const by_step = run.find("learning_rate", "", true);
    finest.insert(by_step != nullptr ? by_step : run.find("learning_rate", ""));
  }
  figures.add(group, {"learning-rate", "Learning rate", "learning rate"},
              [&](const Curve& curve) { return finest.contains(&curve); });
  return group;
}

FigureGroup speed(const CurveFigures& figures, std::span<const RunRecord> runs) {
  FigureGroup group{"Speed", {}};
  figures.add_known(group, "samples_per_second", {"throughput", "Throughput", "samples/s"});
  figures.add_known(group, "epoch_seconds", {"epoch-time", "Time per epoch", "seconds"});
  std::vector<StepTime> times;
  for (const auto& run : runs) {
    const auto& results = run.results;
    if (std::isfinite(results.step_seconds))
      times.push_back({run.name, results.step_seconds, results.data_wait_seconds,
                       results.exposed_communication_seconds});
  }
  if (!times.empty()) group.figures.push_back(step_time_figure(times));
  return group;
}

// The places of the smallest and the largest finite value, in order; the first place when none is
// finite.
std::pair<std::size_t, std::size_t> extremes(std::span<const CurvePoint> points) {
  std::size_t smallest = 0, largest = 0;
  const auto value = [&](std::size_t i) { return points[i].value; };
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (!std::isfinite(value(i))) continue;
    if (!std::isfinite(value(smallest)) || value(i) < value(smallest)) smallest = i;
    if (!std::isfinite(value(largest)) || value(i) > value(largest)) largest = i;
  }
  return std::minmax(smallest, largest);
}

}  // namespace

std::vector<CurvePoint> thinned(std::span<const CurvePoint> points, std::size_t limit) {
  if (points.size() <= limit) return {points.begin(), points.end()};
  const std::size_t stretches = std::max<std::size_t>(1, limit / 2);
  std::vector<CurvePoint> kept;
  for (std::size_t i = 0; i < stretches; ++i) {
    const auto from = i * points.size() / stretches;
    const auto to = (i + 1) * points.size() / stretches;
    const auto [first, second] = extremes(points.subspan(from, to - from));
    kept.push_back(points[from + first]);
    if (second != first) kept.push_back(points[from + second]);
  }
  return kept;
}

std::vector<CurveAxis> known_axes(std::span<const RunRecord> runs) {
  constexpr std::pair<CurveAxis, double CurvePoint::*> places[] = {
      {CurveAxis::epoch, &CurvePoint::epoch},
      {CurveAxis::step, &CurvePoint::step},
      {CurveAxis::relative, &CurvePoint::elapsed},
      {CurveAxis::wall, &CurvePoint::time}};
  std::vector<CurveAxis> axes;
  for (const auto& [axis, place] : places) {
    const auto is_known = [place](const Curve& curve) {
      return std::ranges::any_of(
          curve.points, [](double x) { return std::isfinite(x); }, place);
    };
    if (std::ranges::any_of(
            runs, [&](const RunRecord& run) { return std::ranges::any_of(run.curves, is_known); }))
      axes.push_back(axis);
  }
  return axes;
}

std::vector<FigureGroup> run_figures(std::span<const RunRecord> runs) {
  const CurveFigures figures(runs);
  std::vector<FigureGroup> groups = {learning(figures, runs), speed(figures, runs)};
  std::erase_if(groups, [](const FigureGroup& group) { return group.figures.empty(); });
  return groups;
}

}  // namespace kolo
