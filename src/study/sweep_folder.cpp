#include "study/sweep_folder.h"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/train/observe/format.h"
#include "kolo/report/report.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse_sweep(const fs::path& folder, const std::string& reason) {
  throw InputError(
      fmt::format("sweep in {}: {}; choose another folder with --output DIR, or move this one away",
                  folder.string(), reason));
}

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

// What all trials of both have to have alike.
void require_same_sweep(const fs::path& folder, const Sweep& earlier, const Sweep& planned) {
  const auto differs = [&](std::string_view what, const auto& before, const auto& now) {
    if (before != now) refuse_sweep(folder, fmt::format("its {} {}, not {}", what, before, now));
  };
  differs("settings are", listed(earlier.settings), listed(planned.settings));
  differs("ranks of a trial are", earlier.ranks, planned.ranks);
  if ((earlier.random > 0) != (planned.random > 0))
    refuse_sweep(folder, earlier.random > 0 ? "its trials are drawn (--random), not a grid"
                                            : "its trials are a grid, and not drawn (--random)");
  if (planned.random > 0) {
    differs("keys are", listed(earlier.space), listed(planned.space));
    differs("--seed is", earlier.seed, planned.seed);
    if (earlier.random > planned.random)
      differs("number of drawn trials is", earlier.random, planned.random);
  } else {
    differs("keys are", listed(keys_of(earlier.space)), listed(keys_of(planned.space)));
  }
  differs("--eta (0: without --halving) is", earlier.eta, planned.eta);
  if (earlier.rungs != planned.rungs)
    refuse_sweep(folder, fmt::format("it halves {} trials from {} epochs on, not {} from {}",
                                     earlier.trials.size(), earlier.rungs.front().epochs,
                                     planned.trials.size(), planned.rungs.front().epochs));
  if (planned.eta > 0) differs("--metric is", earlier.metric, planned.metric);
  for (const auto& trial : earlier.trials)
    if (!is_there(planned, trial))
      refuse_sweep(folder, fmt::format("its trial {} ({}) is not among these; values can be added, "
                                       "but not taken away",
                                       trial.number, describe(trial)));
}

}  // namespace

fs::path SweepFolder::output(const Trial& trial) const {
  return path / "output" / fmt::format("{}.txt", fs::path(trial.folder).filename().string());
}

Sweep SweepFolder::merged(const Sweep& planned, const std::string& configuration) const {
  RunFolder{path}.require_writable();
  if (!fs::exists(sweep_file())) {
    if (RunFolder{path}.holds_a_run()) refuse_sweep(path, "the folder holds a run of kolo train");
    for (const auto& file : {config(), table(), report()}) {
      // A sweep that was stopped before it began has left its configuration.
      const bool is_own =
          file == config() && fs::exists(file) && read_text_file(file) == configuration;
      if (fs::exists(file) && !is_own)
        refuse_sweep(path, fmt::format("it holds {}, and no sweep", file.filename().string()));
    }
    return planned;
  }
  Sweep merged = Sweep::read(sweep_file());
  require_same_sweep(path, merged, planned);
  if (!fs::exists(config()) || read_text_file(config()) != configuration)
    refuse_sweep(path, "the configuration has changed since it was begun");
  for (auto& trial : merged.trials)
    if (trial.state == TrialState::running) trial.state = TrialState::stopped;
  for (const auto& trial : planned.trials) {
    if (is_there(merged, trial)) continue;
    merged.trials.push_back(trial);
  }
  merged.space = planned.space;
  merged.random = planned.random;
  merged.metric = planned.metric;
  merged.target = planned.target;
  return merged;
}

bool SweepFolder::collect(Trial& trial, const std::string& metric) const {
  const auto folder = run(trial);
  if (!fs::exists(folder.history())) return false;
  note_results(trial, History::read(folder.history()), metric);
  return true;
}

void SweepFolder::collect(Sweep& sweep) const {
  for (auto& trial : sweep.trials)
    if (trial.state != TrialState::failed) (void)collect(trial, sweep.metric);
}

void SweepFolder::write_report(const Sweep& sweep) const {
  write_file_atomically(table(), sweep.to_csv());
  const auto data = report_data(read_report(std::span(&path, 1)), format_moment(wall_time()));
  write_file_atomically(report(), report_page(data));
}

}  // namespace kolo
