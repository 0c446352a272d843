#include "kolo/report/results_table.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/text.h"
#include "kolo/train/observe/format.h"

namespace kolo {

namespace {

// Column of a study's table, and its text for a point; empty: nothing.
struct PointColumn {
  std::string title;
  bool is_number;
  std::function<std::string(const StudyPoint&)> text;
  std::string usual = {};  // a column with only this text is left out
};

std::string text_or_nothing(const std::string& format, double value) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "";
}

// "12.3 ± 0.4"; empty without a value.
std::string with_deviation(const std::string& value, const std::string& deviation) {
  return value.empty() || deviation.empty() ? value : fmt::format("{} ± {}", value, deviation);
}

std::string epoch_text(const StudyPoint& point) {
  const auto& results = point.results;
  return with_deviation(text_or_nothing("{:.4g} s", results.epoch_seconds),
                        text_or_nothing("{:.2g}", results.epoch_seconds_deviation));
}

std::string throughput_text(const StudyPoint& point) {
  const auto& results = point.results;
  if (!std::isfinite(results.samples_per_second)) return {};
  const double deviation = results.samples_per_second_deviation;
  return with_deviation(format_rate(results.samples_per_second),
                        std::isfinite(deviation) ? format_rate(deviation) : "");
}

std::string state_text(const StudyPoint& point) {
  if (!point.problem.empty()) return fmt::format("{}: {}", name_of(point.state), point.problem);
  if (point.state == StudyPointState::submitted && !point.job.empty())
    return fmt::format("submitted as {}", point.job);
  return std::string(name_of(point.state));
}

// Memory is shown for studies of shared samples only.
std::string memory_of(const StudyPoint& point, double bytes) {
  if (point.spatial.empty() || !std::isfinite(bytes)) return {};
  return format_bytes(static_cast<std::uint64_t>(bytes));
}

std::string batch_owner_of(const StudyPoint& point) {
  return point.batch_of.empty() ? "rank" : point.batch_of;
}

std::vector<PointColumn> columns_of(const StudyPoint& first) {
  const auto result = [](const char* format, double StudyResults::*member, double factor) {
    return [=](const StudyPoint& point) {
      return text_or_nothing(format, factor * (point.results.*member));
    };
  };
  using Point = const StudyPoint&;
  const auto warmup = [](Point point) { return fmt::format("{:g}", point.warmup_epochs); };
  return {
      {"ranks", true, [](Point point) { return fmt::format("{}", point.ranks); }},
      {"nodes", true, [](Point point) { return fmt::format("{}", point.nodes); }, "1"},
      {"cut", false, cut_of},
      {first.spatial.empty() ? "batch/" + batch_owner_of(first) : "batch", true,
       [](Point point) { return format_count(point.batch_size); }},
      {"lr scaling", false, [](Point point) { return point.lr_scaling; }, first.lr_scaling},
      {"warm-up", true, warmup, warmup(first)},
      {"epoch", true, epoch_text},
      {"samples/s", true, throughput_text},
      {"efficiency", true,
       [](Point point) { return text_or_nothing("{:.1f} %", 100 * point.efficiency); }},
      {"accuracy", true, result("{:.2f} %", &StudyResults::val_accuracy, 100)},
      {"best accuracy", true, result("{:.2f} %", &StudyResults::best_val_accuracy, 100)},
      {"loss", true, result("{:.4f}", &StudyResults::val_loss, 1)},
      {"step, ms", true, result("{:.3g}", &StudyResults::step_seconds, 1000)},
      {"exposed, ms", true, result("{:.3g}", &StudyResults::exposed_communication_seconds, 1000)},
      {"data, ms", true, result("{:.3g}", &StudyResults::data_wait_seconds, 1000)},
      {"memory", true,
       [](Point point) { return memory_of(point, point.results.peak_memory_bytes); }},
      {"kept", true, [](Point point) { return memory_of(point, point.kept_bytes); }},
      {"state", false, state_text, "done"}};
}

// `state`: of a point or a trial.
template <typename State>
ResultsTable::Mark mark_of(State state) {
  if (state == State::failed) return ResultsTable::Mark::failed;
  return state == State::done ? ResultsTable::Mark::none : ResultsTable::Mark::waiting;
}

bool shares_cores(const Study& study) {
  return std::ranges::any_of(study.points, [&](const StudyPoint& point) {
    return point.ranks > study.cores * point.nodes && point.state == StudyPointState::done;
  });
}

std::string note_of(const Study& study) {
  const auto owner = study.points.empty() ? "rank" : batch_owner_of(study.points.front());
  std::string note = fmt::format(
      "{} scaling: the batch of {} is fixed. Accuracy and loss are of validation, after the last "
      "epoch; exposed and data: time that a step waits for other ranks and for batches.",
      study.scaling == "weak" ? "Weak" : "Strong",
      study.scaling == "weak" ? "a " + owner : "all ranks together");
  if (study.parallel == "spatial")
    note +=
        " All ranks share each sample, cut as shown. Memory: the most that rank 0's process has "
        "taken; kept: samples and activations among it that a rank keeps for backward, by formula.";
  if (shares_cores(study))
    note += fmt::format(
        " More than {} share this machine's cores: their efficiency says nothing of a "
        "larger one.",
        counted(study.cores, "rank"));
  return note;
}

}  // namespace

ResultsTable study_results(const Study& study) {
  ResultsTable table{.title = "The study", .note = note_of(study)};
  for (const auto& point : study.points) table.rows.push_back({{}, -1, mark_of(point.state)});
  if (study.points.empty()) return table;
  for (const auto& column : columns_of(study.points.front())) {
    std::vector<std::string> texts;
    for (const auto& point : study.points) texts.push_back(column.text(point));
    const auto all_are = [&](const std::string& text) {
      return std::ranges::count(texts, text) == std::ssize(texts);
    };
    if (all_are("") || all_are(column.usual)) continue;
    table.columns.push_back({column.title, column.is_number});
    for (std::size_t i = 0; i < texts.size(); ++i) table.rows[i].cells.push_back({texts[i]});
  }
  return table;
}

namespace {

using Cell = ResultsTable::Cell;

std::string metric_title(const Sweep& sweep) {
  return sweep.metric == "val_loss" ? "loss" : "accuracy";
}

// State of a trial; a failure without the advice after it, which sweep.json has.
std::string state_of(const Trial& trial) {
  if (trial.state == TrialState::failed && !trial.problem.empty())
    return fmt::format("failed: {}", trial.problem.substr(0, trial.problem.find(". ")));
  return std::string(name_of(trial.state));
}

std::string note_of(const Sweep& sweep) {
  auto note = fmt::format(
      "By the best validation {} of any epoch, the best first; epoch: when it was reached, of how "
      "many. Time includes starts.",
      metric_title(sweep));
  if (!std::isfinite(sweep.target)) return note;
  if (const auto last = last_epochs(sweep))
    note += fmt::format(" Last epochs: mean {}, standard deviation {}.",
                        format_metric(sweep.metric, last->mean),
                        format_metric(sweep.metric, last->deviation));
  return note + fmt::format(" Target: {}.", format_metric(sweep.metric, sweep.target));
}

}  // namespace

ResultsTable sweep_results(const Sweep& sweep) {
  ResultsTable table{.title = "The trials", .columns = {{"trial", true}}, .note = note_of(sweep)};
  if (sweep.trials.empty()) return table;
  for (const auto& name : names_in_words(sweep.trials.front().settings))
    table.columns.push_back({name, true});
  table.columns.push_back({metric_title(sweep), true});
  table.columns.push_back({"epoch", true});
  table.columns.push_back({"time", true});
  const bool shows_states = std::ranges::any_of(
      sweep.trials, [](const Trial& trial) { return trial.state != TrialState::done; });
  if (shows_states) table.columns.push_back({"state", false});
  for (const auto place : best_first(sweep)) {
    const auto& trial = sweep.trials[place];
    const bool has_value = std::isfinite(trial.best);
    std::vector<Cell> cells{{fmt::format("{}", trial.number)}};
    for (const auto& setting : trial.settings) cells.push_back({key_and_value(setting).second});
    cells.push_back({format_metric(sweep.metric, trial.best), has_value && table.rows.empty()});
    cells.push_back({has_value ? fmt::format("{} of {}", trial.best_epoch, trial.epochs) : ""});
    cells.push_back({trial.seconds > 0 ? format_duration(trial.seconds) : ""});
    if (shows_states) cells.push_back({state_of(trial)});
    table.rows.push_back({std::move(cells), -1, mark_of(trial.state)});
  }
  return table;
}

ResultsTable seed_results(const Sweep& sweep) {
  ResultsTable table{.title = "Means over seeds",
                     .note = "Means and standard deviations of the trials' best epochs."};
  auto groups = groups_by_seed(sweep);
  if (groups.size() == sweep.trials.size()) return table;
  std::ranges::stable_sort(groups, [&](const SeedGroup& one, const SeedGroup& other) {
    return is_better(sweep.metric, one.mean, other.mean);
  });
  const auto names = names_in_words(sweep.trials.front().settings);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!is_seed(sweep.trials.front().settings[i])) table.columns.push_back({names[i], true});
  table.columns.push_back({metric_title(sweep), true});
  table.columns.push_back({"trials", true});
  for (const auto& group : groups) {
    std::vector<Cell> cells;
    for (const auto& setting : sweep.trials[group.trials.front()].settings)
      if (!is_seed(setting)) cells.push_back({key_and_value(setting).second});
    cells.push_back({with_deviation(format_metric(sweep.metric, group.mean),
                                    format_metric(sweep.metric, group.deviation)),
                     std::isfinite(group.mean) && table.rows.empty() && groups.size() > 1});
    cells.push_back({fmt::format("{}", group.trials.size())});
    table.rows.push_back({std::move(cells)});
  }
  return table;
}

}  // namespace kolo
