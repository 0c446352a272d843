#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "kolo/base/text.h"
#include "kolo/report/figure.h"
#include "report/figure_pieces.h"

namespace kolo {

namespace {

// Presentation of a sweep's metric.
struct MetricView {
  std::string quantity = "accuracy", words = "validation accuracy", axis = "accuracy, %";
  double factor = 100;
};

MetricView view_of(const Sweep& sweep) {
  if (sweep.metric != "val_loss") return {};
  return {.quantity = "loss", .words = "validation loss", .axis = "loss", .factor = 1};
}

// One curve of a run against epochs, without the validation before training.
FigureSeries series_of(std::string name, int colour, const Curve& curve, double factor) {
  FigureSeries series{.name = std::move(name), .colour = colour};
  for (const auto& point : curve.points) {
    if (!(point.epoch > 0)) continue;
    series.x.push_back(point.epoch);
    series.y.push_back(factor * point.value);
  }
  return series;
}

// Colours of the trials, one for each group; of many groups only the best has one.
std::vector<int> colours_of(const Sweep& sweep) {
  std::vector<int> colours(sweep.trials.size(), ideal_colour);
  const auto groups = groups_by_seed(sweep);
  if (std::ssize(groups) > palette_size) {
    colours[best_first(sweep).front()] = 0;
    return colours;
  }
  for (std::size_t number = 0; number < groups.size(); ++number)
    for (const auto place : groups[number].trials) colours[place] = static_cast<int>(number);
  return colours;
}

// Curves of all trials, the worst first, so that the best lies on top.
Figure curves(const Sweep& sweep, std::span<const RunRecord> runs, Figure figure,
              std::string_view quantity, std::string_view split, double factor) {
  auto order = best_first(sweep);
  const auto best = order.front();
  const auto colours = colours_of(sweep);
  std::ranges::reverse(order);
  for (const auto place : order) {
    const auto* const curve = place < runs.size() ? runs[place].find(quantity, split) : nullptr;
    if (curve == nullptr) continue;
    const auto name = place == best ? runs[place].name + " (the best)" : runs[place].name;
    auto series = series_of(name, colours[place], *curve, factor);
    if (!series.x.empty()) figure.series.push_back(std::move(series));
  }
  return figure;
}

FigureGroup curves_of_trials(const Sweep& sweep, std::span<const RunRecord> runs) {
  const auto view = view_of(sweep);
  FigureGroup group{"Trials", {}};
  Figure metric{.id = "sweep-metric",
                .title = fmt::format("Trials: {}", view.words),
                .x_label = "epoch",
                .y_label = view.axis};
  Figure loss{.id = "sweep-training-loss",
              .title = "Trials: training loss",
              .x_label = "epoch",
              .y_label = "loss",
              .y_logarithmic = true};
  for (auto& figure : {curves(sweep, runs, metric, view.quantity, "validation", view.factor),
                       curves(sweep, runs, loss, "loss", "training", 1)})
    if (!figure.series.empty()) group.figures.push_back(figure);
  return group;
}

// Settings of a trial besides one key and the seed, without those that all trials have alike:
// "learning rate scaling linear, warmup epochs 2".
std::string other_settings(const Sweep& sweep, const Trial& trial, std::size_t key) {
  const auto names = names_in_words(trial.settings);
  std::vector<std::string> words;
  for (std::size_t other = 0; other < trial.settings.size(); ++other) {
    const auto is_the_same = [&](const Trial& one) {
      return one.settings.size() > other && one.settings[other] == trial.settings[other];
    };
    if (other != key && !is_seed(trial.settings[other]) &&
        !std::ranges::all_of(sweep.trials, is_the_same))
      words.push_back(
          fmt::format("{} {}", names[other], key_and_value(trial.settings[other]).second));
  }
  return join(words);
}

// A value of a key, the way the other keys are set, and the result: of several seeds their mean.
struct KeyPoint {
  std::string text, others;
  double x = 0, y = not_measured, spread = 0;
  bool is_best = false;
};

std::vector<KeyPoint> points_of_key(const Sweep& sweep, std::size_t key) {
  const double factor = view_of(sweep).factor;
  std::vector<KeyPoint> points;
  double best = not_measured;
  for (const auto& group : groups_by_seed(sweep)) {
    const auto& trial = sweep.trials[group.trials.front()];
    if (!std::isfinite(group.mean) || key >= trial.settings.size()) continue;
    points.push_back({.text = key_and_value(trial.settings[key]).second,
                      .others = other_settings(sweep, trial, key),
                      .y = factor * group.mean,
                      .spread = factor * group.deviation});
    if (is_better(sweep.metric, points.back().y, best)) best = points.back().y;
  }
  for (auto& point : points) point.is_best = point.y == best;
  return points;
}

// Places points by their numbers or, where some are words, side by side. Returns the words.
std::vector<std::string> put_on_axis(std::vector<KeyPoint>& points) {
  std::vector<std::string> words;
  const bool are_numbers = std::ranges::all_of(
      points, [](const auto& point) { return parse_number<double>(point.text).has_value(); });
  for (auto& point : points) {
    if (are_numbers) {
      point.x = *parse_number<double>(point.text);
      continue;
    }
    const auto found = std::ranges::find(words, point.text) - words.begin();
    if (found == std::ssize(words)) words.push_back(point.text);
    point.x = static_cast<double>(found);
  }
  std::ranges::stable_sort(points, {}, &KeyPoint::x);
  return words;
}

bool has_logarithmic_range(const Sweep& sweep, const std::string& key) {
  return std::ranges::any_of(sweep.space,
                             [&](const auto& word) { return word.starts_with(key + "=log:"); });
}

// A series for each way to set the other keys of a grid; none where these are single points, or
// too many.
std::vector<FigureSeries> series_of_ways(const std::vector<KeyPoint>& points) {
  NamedLines lines;
  for (const auto& point : points) lines.add(point.others, point.x, point.y, point.spread);
  auto ways = lines.series();
  const bool are_lines =
      std::ranges::all_of(ways, [](const FigureSeries& way) { return way.x.size() > 1; });
  if (!are_lines || ways.size() < 2 || std::ssize(ways) > palette_size) ways.clear();
  return ways;
}

std::vector<FigureSeries> best_and_others(const std::vector<KeyPoint>& points) {
  std::vector<FigureSeries> series = {
      {.name = "the others", .colour = ideal_colour, .marks = true, .joined = false},
      {.name = "the best", .colour = 0, .marks = true, .joined = false}};
  for (const auto& point : points) {
    auto& own = series[point.is_best ? 1 : 0];
    own.x.push_back(point.x);
    own.y.push_back(point.y);
    own.spread.push_back(point.spread);
  }
  std::erase_if(series, [](const FigureSeries& each) { return each.x.empty(); });
  return series;
}

std::optional<Figure> against_key(const Sweep& sweep, std::size_t key) {
  const auto& setting = sweep.trials.front().settings[key];
  auto points = points_of_key(sweep, key);
  if (points.empty() || is_seed(setting)) return std::nullopt;
  const auto name = names_in_words(sweep.trials.front().settings)[key];
  const auto view = view_of(sweep);
  Figure figure{.id = fmt::format("sweep-key-{}", key + 1),
                .title = fmt::format("Best {} against {}", view.words, name),
                .x_label = name,
                .y_label = view.axis,
                .categories = put_on_axis(points)};
  const double low = points.front().x, high = points.back().x;
  if (low == high) return std::nullopt;
  constexpr double far_apart = 8;
  const bool are_numbers = figure.categories.empty();
  figure.x_logarithmic =
      are_numbers && low > 0 &&
      (has_logarithmic_range(sweep, key_and_value(setting).first) || high / low >= far_apart);
  if (sweep.random == 0) figure.series = series_of_ways(points);
  if (figure.series.empty()) figure.series = best_and_others(points);
  for (auto& series : figure.series) series.joined = series.joined && are_numbers;
  if (std::ranges::any_of(points, [](const KeyPoint& point) { return point.spread > 0; }))
    figure.note = "Means over the seeds; bars are standard deviations.";
  return figure;
}

}  // namespace

std::vector<FigureGroup> sweep_figures(const Sweep& sweep, std::span<const RunRecord> runs) {
  if (sweep.trials.empty()) return {};
  FigureGroup keys{"What the settings do", {}};
  for (std::size_t key = 0; key < sweep.trials.front().settings.size(); ++key)
    if (auto figure = against_key(sweep, key)) keys.figures.push_back(std::move(*figure));
  std::vector<FigureGroup> groups{curves_of_trials(sweep, runs), std::move(keys)};
  std::erase_if(groups, [](const FigureGroup& group) { return group.figures.empty(); });
  return groups;
}

}  // namespace kolo
