#include "study/study_folder.h"

#include <algorithm>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

std::string listed(const std::vector<std::string>& words) {
  return words.empty() ? "nothing" : join(words, " ");
}

std::vector<std::string> keys_of(const std::vector<std::string>& space) {
  std::vector<std::string> keys;
  for (const auto& word : space) keys.push_back(key_and_value(word).first);
  return keys;
}

bool is_there(const Sweep& sweep, const Trial& wanted) {
  return std::ranges::find(sweep.trials, wanted.settings, &Trial::settings) != sweep.trials.end();
}

// Refuses a sweep whose trials would not compare with the earlier ones.
void require_same_sweep(const SweepFolder& folder, const Sweep& earlier, const Sweep& planned) {
  const auto differs = [&](std::string_view what, const auto& before, const auto& now) {
    if (before != now) folder.refuse(fmt::format("its {} {}, not {}", what, before, now));
  };
  differs("settings are", listed(earlier.settings), listed(planned.settings));
  differs("ranks of a trial are", earlier.ranks, planned.ranks);
  if ((earlier.random > 0) != (planned.random > 0))
    folder.refuse(earlier.random > 0 ? "its trials are drawn (--random), not a grid"
                                     : "its trials are a grid, and not drawn (--random)");
  if (planned.random > 0) {
    differs("keys are", listed(earlier.space), listed(planned.space));
    differs("--seed is", earlier.seed, planned.seed);
    if (earlier.random > planned.random)
      differs("number of drawn trials is", earlier.random, planned.random);
  } else {
    differs("keys are", listed(keys_of(earlier.space)), listed(keys_of(planned.space)));
  }
  for (const auto& trial : earlier.trials)
    if (!is_there(planned, trial))
      folder.refuse(
          fmt::format("its trial {} ({}) is not among these; values can be added, "
                      "but not taken away",
                      trial.number, describe(trial)));
}

}  // namespace

fs::path SweepFolder::output(const Trial& trial) const {
  return path / "output" / fmt::format("{}.txt", fs::path(trial.folder).filename().string());
}

Sweep SweepFolder::merged(const Sweep& planned, const std::string& configuration) const {
  require_free(configuration);
  if (!fs::exists(file())) return planned;
  Sweep merged = Sweep::read(file());
  require_same_sweep(*this, merged, planned);
  if (!fs::exists(config()) || read_text_file(config()) != configuration)
    refuse("the configuration has changed since it was begun");
  for (auto& trial : merged.trials)
    if (trial.state == TrialState::running) trial.state = TrialState::stopped;
  for (const auto& trial : planned.trials)
    if (!is_there(merged, trial)) merged.trials.push_back(trial);
  merged.space = planned.space;
  merged.random = planned.random;
  merged.metric = planned.metric;
  merged.target = planned.target;
  return merged;
}

void SweepFolder::collect(Trial& trial, const std::string& metric) const {
  const auto history = run(trial).history();
  if (fs::exists(history)) note_results(trial, History::read(history), metric);
}

void SweepFolder::collect(Sweep& sweep) const {
  for (auto& trial : sweep.trials)
    if (trial.state != TrialState::failed) collect(trial, sweep.metric);
}

namespace {

// Estimate from the seconds that an epoch has taken so far; 0: unknown, or nothing is left.
double seconds_left(const TrialSetting& setting, const Sweep& sweep) {
  double left = 0, seconds = 0, measured = 0;
  for (std::size_t i = 0; i < sweep.trials.size(); ++i) {
    const auto& trial = sweep.trials[i];
    const bool is_over = trial.state == TrialState::done || trial.state == TrialState::failed;
    const auto trained = static_cast<double>(trial.epochs);
    if (!is_over) left += static_cast<double>(setting.epochs[i]) - trained;
    if (trial.seconds <= 0 || trial.state == TrialState::running) continue;
    seconds += trial.seconds;
    measured += trained;
  }
  if (measured <= 0 || left <= 0) return 0;
  return left * seconds / measured / static_cast<double>(setting.sites.size());
}

std::string describe_result(const Sweep& sweep, const Trial& trial) {
  if (trial.state == TrialState::failed) return fmt::format("failed with {}", trial.problem);
  const auto epochs = counted(trial.epochs, "epoch");
  if (trial.state == TrialState::stopped) return fmt::format("stopped after {}", epochs);
  const auto value = format_metric(sweep.metric, trial.best);
  if (value.empty()) return fmt::format("no {} in {}", sweep.metric, epochs);
  return fmt::format("{} {} in epoch {} of {}, {}", sweep.metric, value, trial.best_epoch,
                     trial.epochs, format_duration(trial.seconds));
}

}  // namespace

std::string describe_end(const TrialSetting& setting, const Sweep& sweep, const Trial& trial) {
  const auto over = std::ranges::count_if(sweep.trials, [](const Trial& each) {
    return each.state == TrialState::done || each.state == TrialState::failed;
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
