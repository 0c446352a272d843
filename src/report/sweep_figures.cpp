#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "kolo/base/text.h"
#include "kolo/report/figure.h"
#include "report/figure_parts.h"

namespace kolo {

namespace {

bool is_accuracy(const Sweep& sweep) {
  return sweep.metric != "val_loss";
}

std::string metric_words(const Sweep& sweep) {
  return is_accuracy(sweep) ? "validation accuracy" : "validation loss";
}

std::string metric_axis(const Sweep& sweep) {
  return is_accuracy(sweep) ? "accuracy, %" : "loss";
}

double shown(const Sweep& sweep, double value) {
  return is_accuracy(sweep) ? 100 * value : value;
}

// One curve of a run against epochs, without the validation before training.
FigureSeries series_of(const RunRecord& run, const Curve& curve, double factor, bool is_best) {
  FigureSeries series{.name = is_best ? run.name + " (the best)" : run.name,
                      .colour = is_best ? 0 : ideal_colour};
  for (const auto& point : curve.points) {
    if (!(point.epoch > 0)) continue;
    series.x.push_back(point.epoch);
    series.y.push_back(factor * point.value);
  }
  return series;
}

// Curves of all trials, the worst first, so that the best lies on top.
Figure curves(const Sweep& sweep, std::span<const RunRecord> runs, Figure figure,
              std::string_view quantity, std::string_view part, double factor) {
  auto order = best_first(sweep);
  const auto best = order.front();
  std::ranges::reverse(order);
  for (const auto place : order) {
    const auto* const curve = place < runs.size() ? runs[place].find(quantity, part) : nullptr;
    if (curve == nullptr) continue;
    auto series = series_of(runs[place], *curve, factor, place == best);
    if (!series.x.empty()) figure.series.push_back(std::move(series));
  }
  return figure;
}

FigureGroup curves_of_trials(const Sweep& sweep, std::span<const RunRecord> runs) {
  FigureGroup group{"Trials", {}};
  Figure metric{.id = "sweep-metric",
                .title = fmt::format("Trials: {}", metric_words(sweep)),
                .x_label = "epoch",
                .y_label = metric_axis(sweep)};
  Figure loss{.id = "sweep-training-loss",
              .title = "Trials: training loss",
              .x_label = "epoch",
              .y_label = "loss",
              .y_logarithmic = true};
  for (auto& figure : {curves(sweep, runs, metric, is_accuracy(sweep) ? "accuracy" : "loss",
                              "validation", is_accuracy(sweep) ? 100 : 1),
                       curves(sweep, runs, loss, "loss", "training", 1)})
    if (!figure.series.empty()) group.figures.push_back(figure);
  return group;
}

// Settings of a trial besides one key, without those that all trials have alike: "lr_scaling
// linear, lr_warmup_epochs 2".
std::string other_settings(const Sweep& sweep, const Trial& trial, std::size_t key) {
  const auto names = short_names(trial.settings);
  std::vector<std::string> words;
  for (std::size_t other = 0; other < trial.settings.size(); ++other) {
    const auto is_the_same = [&](const Trial& one) {
      return one.settings.size() > other && one.settings[other] == trial.settings[other];
    };
    if (other != key && !std::ranges::all_of(sweep.trials, is_the_same))
      words.push_back(
          fmt::format("{} {}", names[other], key_and_value(trial.settings[other]).second));
  }
  return join(words);
}

// A trial's value of a key, the way its other keys are set, and its result.
struct KeyPoint {
  std::string text, others;
  double x = 0, y = not_measured;
  bool is_best = false;
};

std::vector<KeyPoint> points_of_key(const Sweep& sweep, std::size_t key) {
  std::vector<KeyPoint> points;
  const auto& best = sweep.trials[best_first(sweep).front()];
  for (const auto& trial : sweep.trials) {
    if (!std::isfinite(trial.best) || key >= trial.settings.size()) continue;
    points.push_back({.text = key_and_value(trial.settings[key]).second,
                      .others = other_settings(sweep, trial, key),
                      .y = shown(sweep, trial.best),
                      .is_best = &trial == &best});
  }
  return points;
}

// Places points by their numbers or, if some are words, by word, which the axis label lists.
bool place_on_axis(std::vector<KeyPoint>& points, std::string& label) {
  const bool are_numbers = std::ranges::all_of(
      points, [](const auto& point) { return parse_number<double>(point.text).has_value(); });
  std::vector<std::string> words;
  for (auto& point : points) {
    const auto found = std::ranges::find(words, point.text) - words.begin();
    if (found == std::ssize(words)) words.push_back(point.text);
    point.x = are_numbers ? *parse_number<double>(point.text) : static_cast<double>(found + 1);
  }
  if (!are_numbers) {
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = fmt::format("{}: {}", i + 1, words[i]);
    label += fmt::format(" ({})", join(words));
  }
  std::ranges::stable_sort(points, {}, &KeyPoint::x);
  return are_numbers;
}

bool has_logarithmic_range(const Sweep& sweep, const std::string& key) {
  return std::ranges::any_of(sweep.space,
                             [&](const auto& word) { return word.starts_with(key + "=log:"); });
}

// A series of points without lines: a gap after each.
FigureSeries scattered(std::string name, const std::vector<KeyPoint>& points, bool of_best) {
  FigureSeries series{.name = std::move(name), .colour = of_best ? 0 : ideal_colour, .marks = true};
  for (const auto& point : points) {
    if (point.is_best != of_best) continue;
    if (!series.x.empty()) {
      series.x.push_back(point.x);
      series.y.push_back(not_measured);
    }
    series.x.push_back(point.x);
    series.y.push_back(point.y);
  }
  return series;
}

// A line for each way to set the other keys of a grid; none where these are no lines, or too many.
std::vector<FigureSeries> lines_of_key(const std::vector<KeyPoint>& points) {
  constexpr std::size_t most_lines = 8;
  NamedLines lines;
  for (const auto& point : points) lines.add(point.others, point.x, point.y);
  auto series = lines.series();
  const bool are_lines =
      std::ranges::all_of(series, [](const FigureSeries& line) { return line.x.size() > 1; });
  if (!are_lines || series.size() < 2 || series.size() > most_lines) series.clear();
  return series;
}

std::optional<Figure> against_key(const Sweep& sweep, std::size_t key) {
  auto points = points_of_key(sweep, key);
  if (points.empty()) return std::nullopt;
  const auto name = key_and_value(sweep.trials.front().settings[key]).first;
  auto label = name;
  const bool are_numbers = place_on_axis(points, label);
  const double low = points.front().x, high = points.back().x;
  if (low == high) return std::nullopt;
  Figure figure{.id = fmt::format("sweep-key-{}", key + 1),
                .title = fmt::format("Best {} against {}", metric_words(sweep), name),
                .x_label = label,
                .y_label = metric_axis(sweep)};
  constexpr double far_apart = 8;
  figure.x_logarithmic =
      are_numbers && low > 0 && (has_logarithmic_range(sweep, name) || high / low >= far_apart);
  if (are_numbers && sweep.random == 0) figure.series = lines_of_key(points);
  if (!figure.series.empty()) return figure;
  for (const bool of_best : {false, true}) {
    auto series = scattered(of_best ? "the best trial" : "other trials", points, of_best);
    if (!series.x.empty()) figure.series.push_back(std::move(series));
  }
  return figure;
}

}  // namespace

std::vector<FigureGroup> sweep_figures(const Sweep& sweep, std::span<const RunRecord> runs) {
  if (sweep.trials.empty()) return {};
  FigureGroup keys{"What the keys do", {}};
  for (std::size_t key = 0; key < sweep.trials.front().settings.size(); ++key) {
    if (auto figure = against_key(sweep, key)) keys.figures.push_back(std::move(*figure));
  }
  std::vector<FigureGroup> groups{curves_of_trials(sweep, runs), std::move(keys)};
  std::erase_if(groups, [](const FigureGroup& group) { return group.figures.empty(); });
  return groups;
}

}  // namespace kolo
