#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "kolo/report/figure.h"
#include "report/figure_parts.h"

namespace kolo {

namespace {

// How a quantity is shown.
struct Presentation {
  std::string id, title, y_label;
  double factor = 1;
  double offset = 0;  // added to what the factor makes of a value
  // Each run has one curve in it, of validation, on a logarithmic axis.
  bool compares_validations = false;
};

// Points of a curve in a figure: more can't be seen apart, and make pages slow.
constexpr std::size_t most_points = 1500;
constexpr std::size_t most_marks = 60;

// Every curve of one quantity of a run.
using CurveFilter = std::function<bool(const Curve&)>;

// Makes figures of the same runs against one axis.
class CurveFigures {
 public:
  CurveFigures(std::span<const RunRecord> runs, CurveAxis axis)
      : runs_(runs), axis_(axis), unit_(unit_for(runs)) {}

  // Adds the figure to the group unless no run has a curve that `is_wanted`.
  void add(FigureGroup& group, const Presentation& presentation,
           const CurveFilter& is_wanted) const {
    Figure figure{.id = presentation.id,
                  .title = presentation.title,
                  .x_label = axis_label(),
                  .y_label = presentation.y_label,
                  .y_logarithmic = presentation.compares_validations,
                  .x_is_time = axis_ == CurveAxis::wall};
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
    if (is_thinned) figure.note = "Of long curves the smallest and largest values are drawn.";
    group.figures.push_back(std::move(figure));
  }

  // A quantity that kolo knows, with a value per epoch and, as a figure of its own, every few
  // steps.
  void add_known(FigureGroup& group, std::string_view quantity,
                 const Presentation& presentation) const {
    add(group, presentation,
        [&](const Curve& curve) { return curve.quantity == quantity && !curve.by_step; });
    auto by_step = presentation;
    by_step.id += "-by-step";
    by_step.title += ", step by step";
    add(group, by_step,
        [&](const Curve& curve) { return curve.quantity == quantity && curve.by_step; });
  }

 private:
  // In the order of CurveAxis.
  [[nodiscard]] std::string axis_label() const {
    const std::string labels[] = {"epoch", "step", unit_.name + " since the start", "time (UTC)"};
    return labels[static_cast<std::size_t>(axis_)];
  }

  [[nodiscard]] double place_of(const CurvePoint& point, double start) const {
    const double places[] = {point.epoch, point.step, (point.time - start) / unit_.seconds,
                             point.time};
    return places[static_cast<std::size_t>(axis_)];
  }

  // "training", or among several runs "first, training".
  [[nodiscard]] std::string name_of(const Curve& curve, std::size_t number) const {
    if (curve.part.empty()) return runs_[number].name;
    return runs_.size() == 1 ? curve.part : fmt::format("{}, {}", runs_[number].name, curve.part);
  }

  [[nodiscard]] FigureSeries series_of(const Curve& curve, std::size_t number,
                                       const Presentation& presentation) const {
    FigureSeries series{
        .name = presentation.compares_validations ? runs_[number].name : name_of(curve, number),
        .colour = run_colour(number),
        .dashed = curve.part == "training" && !curve.by_step};  // by step it is alone, and dense
    const double start = start_of(runs_[number]);
    for (const auto& point : thinned(curve.points, most_points)) {
      // The validation before training would leave little room for the others.
      if (point.epoch == 0 && !curve.by_step) continue;
      series.x.push_back(place_of(point, start));
      series.y.push_back(presentation.factor * point.value + presentation.offset);
    }
    series.marks = !curve.by_step && series.x.size() <= most_marks;
    return series;
  }

  std::span<const RunRecord> runs_;
  CurveAxis axis_;
  TimeUnit unit_;
};

// Validation alone: the error where there are accuracies, else the loss. On a logarithmic axis
// curves that end close together can be told apart.
void add_comparison(const CurveFigures& figures, FigureGroup& group,
                    std::span<const RunRecord> runs) {
  const bool has_accuracy = std::ranges::any_of(
      runs, [](const RunRecord& run) { return run.find("accuracy", "validation") != nullptr; });
  const Presentation presentation =
      has_accuracy
          ? Presentation{"validation-error", "Validation error", "error, %", -100, 100, true}
          : Presentation{"validation-loss", "Validation loss", "loss", 1, 0, true};
  figures.add(group, presentation, [&](const Curve& curve) {
    return curve.quantity == (has_accuracy ? "accuracy" : "loss") && curve.part == "validation" &&
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
  // The rate of every few steps says more than that of epochs, where there is one.
  std::set<const Curve*> finest;
  for (const auto& run : runs) {
    const auto* const by_step = run.find("learning_rate", "", true);
    finest.insert(by_step != nullptr ? by_step : run.find("learning_rate", ""));
  }
  figures.add(group, {"learning-rate", "Learning rate", "learning rate"},
              [&](const Curve& curve) { return finest.contains(&curve); });
  return group;
}

FigureGroup speed(const CurveFigures& figures, std::span<const RunRecord> runs,
                  const RunFigureOptions& options) {
  FigureGroup group{"Speed", {}};
  if (auto figure = time_to_target_figure(runs, options.targets))
    group.figures.push_back(std::move(*figure));
  figures.add_known(group, "samples_per_second", {"throughput", "Throughput", "samples/s"});
  figures.add_known(group, "epoch_seconds", {"epoch-time", "Time per epoch", "seconds"});
  std::vector<StepTime> times;
  for (const auto& run : runs) {
    if (const auto time = step_time_of(run); std::isfinite(time.whole)) times.push_back(time);
  }
  if (!times.empty()) group.figures.push_back(step_time_figure(times));
  return group;
}

}  // namespace

std::vector<CurveAxis> known_axes(std::span<const RunRecord> runs) {
  bool epoch = false, step = false, time = false;
  for (const auto& run : runs) {
    for (const auto& curve : run.curves) {
      for (const auto& point : curve.points) {
        epoch = epoch || std::isfinite(point.epoch);
        step = step || std::isfinite(point.step);
        time = time || std::isfinite(point.time);
      }
    }
  }
  std::vector<CurveAxis> axes;
  if (epoch) axes.push_back(CurveAxis::epoch);
  if (step) axes.push_back(CurveAxis::step);
  if (time) axes.insert(axes.end(), {CurveAxis::relative, CurveAxis::wall});
  return axes;
}

std::vector<FigureGroup> run_figures(std::span<const RunRecord> runs,
                                     const RunFigureOptions& options) {
  const CurveFigures figures(runs, options.axis);
  std::vector<FigureGroup> groups = {learning(figures, runs), speed(figures, runs, options)};
  std::erase_if(groups, [](const FigureGroup& group) { return group.figures.empty(); });
  return groups;
}

}  // namespace kolo
