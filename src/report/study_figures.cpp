#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "kolo/report/figure.h"
#include "kolo/report/results_table.h"
#include "report/figure_pieces.h"

namespace kolo {

namespace {

using Measurement = double StudyResults::*;

// Mean and deviation of points of the same number of ranks.
class Mean {
 public:
  void add(double value, double deviation) {
    if (!std::isfinite(value)) return;
    count_ += 1;
    sum_ += value;
    sum_of_squares_ += value * value;
    if (std::isfinite(deviation)) variance_within_ += deviation * deviation;
  }
  [[nodiscard]] bool is_empty() const { return count_ == 0; }
  [[nodiscard]] double value() const { return sum_ / count_; }
  // Standard deviation of single measurements, from that within points and that between them.
  [[nodiscard]] double deviation() const {
    const double between = std::max(0.0, sum_of_squares_ / count_ - value() * value());
    return std::sqrt(between + variance_within_ / count_);
  }

 private:
  double count_ = 0, sum_ = 0, sum_of_squares_ = 0, variance_within_ = 0;
};

// Means over points of the same number of ranks.
template <typename Value, typename Deviation>
void add_series(Figure& figure, const Study& study, Value value, Deviation deviation,
                FigureSeries series = {.name = "measured", .marks = true}) {
  std::map<int, Mean> means;
  for (const auto& point : study.points) means[point.ranks].add(value(point), deviation(point));
  for (const auto& [ranks, mean] : means) {
    if (mean.is_empty()) continue;
    series.x.push_back(ranks);
    series.y.push_back(mean.value());
    series.spread.push_back(mean.deviation());
  }
  if (std::ranges::all_of(series.spread, [](double spread) { return spread == 0; }))
    series.spread.clear();
  if (!series.x.empty()) figure.series.push_back(std::move(series));
}

// Adds the ideal line through the first measured point: proportional to a power of the ranks.
void add_ideal(Figure& figure, double power) {
  if (figure.series.empty()) return;
  const auto& measured = figure.series.front();
  const double first = measured.x.front(), value = measured.y.front(), last = measured.x.back();
  FigureSeries ideal{.name = "ideal", .x = {first, last}, .colour = ideal_colour, .dashed = true};
  for (const double ranks : ideal.x) ideal.y.push_back(value * std::pow(ranks / first, power));
  if (last > first) figure.series.push_back(std::move(ideal));
}

Figure figure_by_ranks(std::string id, std::string title, std::string y_label,
                       bool y_logarithmic = true) {
  return {.id = std::move(id),
          .title = std::move(title),
          .x_label = "ranks",
          .y_label = std::move(y_label),
          .x_logarithmic = true,
          .y_logarithmic = y_logarithmic};
}

// Memory of a study whose ranks share samples: saving it is why they do.
Figure memory(const Study& study) {
  constexpr double mebibyte = 1 << 20;
  auto figure = figure_by_ranks("scaling-memory", "Memory per rank against ranks", "MiB");
  if (study.parallel != "spatial") return figure;
  const auto nothing = [](const StudyPoint&) { return 0.; };
  add_series(
      figure, study,
      [&](const StudyPoint& point) { return point.results.peak_memory_bytes / mebibyte; }, nothing);
  add_series(figure, study, [&](const StudyPoint& point) { return point.kept_bytes / mebibyte; },
             nothing,
             {.name = "kept for backward, by formula", .colour = 2, .dashed = true, .marks = true});
  figure.note =
      "Measured: the most that rank 0's whole process has taken, the program and the parameters "
      "among it.";
  return figure;
}

Figure step_time(const Study& study) {
  std::map<int, std::array<Mean, 3>> means;
  for (const auto& point : study.points) {
    const auto& results = point.results;
    if (!std::isfinite(results.step_seconds)) continue;
    auto& [whole, data, ranks] = means[point.ranks];
    whole.add(results.step_seconds, 0);
    data.add(results.data_wait_seconds, 0);
    ranks.add(results.exposed_communication_seconds, 0);
  }
  std::vector<StepTime> times;
  for (const auto& [ranks, mean] : means) {
    const auto value = [](const Mean& of) { return of.is_empty() ? not_measured : of.value(); };
    times.push_back({std::to_string(ranks), value(mean[0]), value(mean[1]), value(mean[2])});
  }
  auto figure = step_time_figure(times);
  figure.id = "scaling-step-time";
  figure.x_label = "ranks";
  return figure;
}

// One line for each combination of learning-rate scaling and warm-up.
Figure by_combination(const Study& study, Figure figure, Measurement value, double factor,
                      double offset = 0) {
  NamedLines lines;
  for (const auto& point : study.points) {
    if (std::isfinite(point.results.*value))
      lines.add(combination_name(point), point.ranks, factor * (point.results.*value) + offset);
  }
  figure.series = lines.series();
  return figure;
}

void add_if_drawn(FigureGroup& group, Figure figure) {
  if (!figure.series.empty()) group.figures.push_back(std::move(figure));
}

FigureGroup scaling(const Study& study) {
  FigureGroup group{"Scaling", {}};
  const auto add = [&](Figure figure, double ideal_power, auto value, auto deviation) {
    add_series(figure, study, value, deviation);
    add_ideal(figure, ideal_power);
    add_if_drawn(group, std::move(figure));
  };
  add(
      figure_by_ranks("scaling-throughput", "Throughput against ranks", "samples/s"), 1,
      [](const auto& point) { return point.results.samples_per_second; },
      [](const auto& point) { return point.results.samples_per_second_deviation; });
  add(
      figure_by_ranks("scaling-efficiency", "Efficiency against ranks", "efficiency, %", false), 0,
      [](const auto& point) { return 100 * point.efficiency; },
      [](const auto& point) {
        return 100 * point.efficiency * point.results.samples_per_second_deviation /
               point.results.samples_per_second;
      });
  // An epoch is the whole data set, however large the batches are.
  add(
      figure_by_ranks("scaling-epoch-time", "Time per epoch against ranks", "seconds"), -1,
      [](const auto& point) { return point.results.epoch_seconds; },
      [](const auto& point) { return point.results.epoch_seconds_deviation; });
  add_if_drawn(group, step_time(study));
  add_if_drawn(group, memory(study));
  return group;
}

FigureGroup large_batches(const Study& study) {
  FigureGroup group{"Large batches", {}};
  const auto accuracy = figure_by_ranks("scaling-accuracy", "Validation accuracy against ranks",
                                        "accuracy, %", false);
  add_if_drawn(group, by_combination(study, accuracy, &StudyResults::val_accuracy, 100));
  // The same as errors: a logarithmic axis tells good ones apart beside bad ones.
  const auto error = figure_by_ranks("scaling-error", "Validation error against ranks", "error, %");
  add_if_drawn(group, by_combination(study, error, &StudyResults::val_accuracy, -100, 100));
  const auto loss = figure_by_ranks("scaling-loss", "Validation loss against ranks", "loss", false);
  add_if_drawn(group, by_combination(study, loss, &StudyResults::val_loss, 1));
  for (auto& figure : group.figures) {
    figure.note = study.scaling == "weak"
                      ? "After the last epoch. The batch of all ranks grows with them; the "
                        "learning rate is scaled "
                        "with it, or not."
                      : "After the last epoch. The batch of all ranks is the same for any number.";
  }
  return group;
}

}  // namespace

std::string combination_name(const StudyPoint& point) {
  const bool is_scaled = !point.lr_scaling.empty() && point.lr_scaling != "none";
  const std::string scaling = is_scaled ? point.lr_scaling : "unscaled";
  if (point.warmup_epochs == 0) return fmt::format("{}, no warm-up", scaling);
  return fmt::format("{}, warm-up of {:g} epoch{}", scaling, point.warmup_epochs,
                     point.warmup_epochs == 1 ? "" : "s");
}

std::vector<FigureGroup> study_figures(const Study& study) {
  std::vector<FigureGroup> groups = {scaling(study), large_batches(study)};
  std::erase_if(groups, [](const FigureGroup& group) { return group.figures.empty(); });
  return groups;
}

}  // namespace kolo
