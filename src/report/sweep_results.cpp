#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/report/results_table.h"

namespace kolo {

namespace {

using Cell = ResultsTable::Cell;

std::string metric_title(const Sweep& sweep) {
  return sweep.metric == "val_loss" ? "loss" : "accuracy";
}

ResultsTable::Mark mark_of(TrialState state) {
  switch (state) {
    case TrialState::failed:
      return ResultsTable::Mark::failed;
    case TrialState::pending:
    case TrialState::running:
    case TrialState::stopped:
    case TrialState::waiting:
      return ResultsTable::Mark::waiting;
    case TrialState::dropped:
    case TrialState::done:
      return ResultsTable::Mark::none;
  }
  return ResultsTable::Mark::none;
}

// What happened, without the advice after it, which was said when it did and stands in sweep.json.
std::string state_of(const Trial& trial) {
  if (trial.state == TrialState::failed && !trial.problem.empty())
    return fmt::format("failed: {}", trial.problem.substr(0, trial.problem.find(". ")));
  return std::string(state_name(trial.state));
}

std::string note_of(const Sweep& sweep) {
  auto note = fmt::format(
      "By the best validation {} of any epoch, the best first; epoch: which one that was, of those "
      "that the trial has trained. Time: of all a trial's processes, their starts among it.",
      metric_title(sweep));
  if (!sweep.rungs.empty())
    note += fmt::format(" Successive halving: one trial in {:g} went on at the end of each rung.",
                        sweep.eta);
  if (!std::isfinite(sweep.target)) return note;
  if (const auto last = last_epochs(sweep))
    note += fmt::format(" Last epochs: mean {}, standard deviation {}.",
                        format_metric(sweep.metric, last->mean),
                        format_metric(sweep.metric, last->deviation));
  return note + fmt::format(" Target: {}.", format_metric(sweep.metric, sweep.target));
}

}  // namespace

ResultsTable sweep_results(const Sweep& sweep) {
  ResultsTable table{
      .title = "The trials", .columns = {{"trial", true}}, .rows = {}, .note = note_of(sweep)};
  if (sweep.trials.empty()) return table;
  for (const auto& name : short_names(sweep.trials.front().settings))
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

ResultsTable sweep_rungs(const Sweep& sweep) {
  ResultsTable table{.title = "The rungs",
                     .columns = {{"epochs", true},
                                 {"trials", true},
                                 {"went on", true},
                                 {fmt::format("best {}", metric_title(sweep)), true},
                                 {"least that went on", true}},
                     .rows = {},
                     .note = {}};
  for (std::size_t rung = 0; rung < sweep.rungs.size(); ++rung) {
    int came = 0, went_on = 0;
    double best = not_measured, least = not_measured;
    for (const auto& trial : sweep.trials) {
      if (trial.rung_values.size() <= rung) continue;
      ++came;
      const double value = trial.rung_values[rung];
      if (is_better(sweep.metric, value, best)) best = value;
      if (trial.rung <= static_cast<int>(rung)) continue;
      ++went_on;
      if (!std::isfinite(least) || is_better(sweep.metric, least, value)) least = value;
    }
    const bool is_last = rung + 1 == sweep.rungs.size();
    table.rows.push_back({{{fmt::format("{}", sweep.rungs[rung].epochs)},
                           {fmt::format("{}", came)},
                           {is_last ? "" : fmt::format("{}", went_on)},
                           {format_metric(sweep.metric, best)},
                           {format_metric(sweep.metric, least)}}});
  }
  return table;
}

}  // namespace kolo
