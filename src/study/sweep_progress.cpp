#include <algorithm>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "study/sweep_folder.h"

namespace kolo {

namespace {

double planned_epochs(const TrialSetting& setting, const Sweep& sweep) {
  double epochs = 0;
  if (!is_halving(sweep))
    for (const auto of_trial : setting.epochs) epochs += static_cast<double>(of_trial);
  std::int64_t before = 0;
  for (const auto& rung : sweep.rungs) {
    epochs += rung.trials * static_cast<double>(rung.epochs - before);
    before = rung.epochs;
  }
  return epochs;
}

// By the seconds that an epoch has taken so far; 0: not known, or none.
double seconds_left(const TrialSetting& setting, const Sweep& sweep) {
  double done = 0, seconds = 0, measured = 0;
  for (std::size_t i = 0; i < sweep.trials.size(); ++i) {
    const auto& trial = sweep.trials[i];
    const bool is_over = trial.state == TrialState::done || trial.state == TrialState::failed;
    const auto trained = static_cast<double>(trial.epochs);
    done += is_over && !is_halving(sweep) ? static_cast<double>(setting.epochs[i]) : trained;
    if (trial.seconds <= 0 || trial.state == TrialState::running) continue;
    seconds += trial.seconds;
    measured += trained;
  }
  const double left = planned_epochs(setting, sweep) - done;
  if (measured <= 0 || left <= 0) return 0;
  return left * seconds / measured / static_cast<double>(setting.places.size());
}

std::string describe_result(const Sweep& sweep, const Trial& trial) {
  if (trial.state == TrialState::failed) return fmt::format("failed with {}", trial.problem);
  const auto epochs = fmt::format("{} epoch{}", trial.epochs, trial.epochs == 1 ? "" : "s");
  if (trial.state == TrialState::stopped) return fmt::format("stopped after {}", epochs);
  const auto value = format_metric(sweep.metric, trial.best);
  if (value.empty()) return fmt::format("no {} in {}", sweep.metric, epochs);
  return fmt::format("{} {} in epoch {} of {}, {}", sweep.metric, value, trial.best_epoch,
                     trial.epochs, format_duration(trial.seconds));
}

}  // namespace

std::string describe_end(const TrialSetting& setting, const Sweep& sweep, const Trial& trial) {
  const auto over = std::ranges::count_if(sweep.trials, [](const Trial& each) {
    return each.state == TrialState::done || each.state == TrialState::dropped ||
           each.state == TrialState::failed;
  });
  auto text = fmt::format("trial {} ({}): {}; {} of {} over", trial.number, describe(trial),
                          describe_result(sweep, trial), over, sweep.trials.size());
  const auto& best = sweep.trials[best_first(sweep).front()];
  if (const auto value = format_metric(sweep.metric, best.best); !value.empty())
    text += fmt::format(", best trial {} with {}", best.number, value);
  if (const double left = seconds_left(setting, sweep); left > 0)
    text += fmt::format(", {} left", format_duration(left));
  return text;
}

}  // namespace kolo
