#include "study/study_folder.h"

#include <algorithm>
#include <span>
#include <tuple>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/base/error.h"
#include "kolo/base/file.h"
#include "kolo/base/text.h"
#include "kolo/report/report.h"
#include "kolo/train/observe/format.h"
#include "kolo/train/observe/history.h"

namespace kolo {

namespace fs = std::filesystem;

namespace {

// Members that tell a run from others; the rest says what has become of it.
auto identity_of(const StudyPoint& point) {
  return std::tuple(point.ranks, point.lr_scaling, point.warmup_epochs, point.spatial);
}

std::string homework_metrics(const History& history) {
  std::string text;
  for (const auto& epoch : history.epochs()) {
    if (epoch.epoch == 0) continue;
    text += fmt::format("{:.8e} {:.8e} {:.8e} {:.8e} {:.8e}\n", epoch.accuracy, epoch.loss,
                        epoch.val_accuracy, epoch.val_loss, epoch.seconds);
  }
  return text;
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

void ResultsFolder::refuse(const std::string& reason) const {
  throw InputError(
      fmt::format("{} in {}: {}; choose another folder with --output DIR, or move this one away",
                  kind, path.string(), reason));
}

void ResultsFolder::require_free(const std::string& configuration) const {
  const RunFolder run{path};
  run.require_writable();
  if (fs::exists(file())) return;
  if (run.holds_a_run()) refuse("the folder holds a run of kolo train");
  for (const auto& other : {config(), report()}) {
    if (!fs::exists(other)) continue;
    // A study that was stopped before its first run has left its configuration.
    if (other == config() && read_text_file(other) == configuration) continue;
    refuse(fmt::format("it holds {}, and no {}", other.filename().string(), kind));
  }
}

std::unique_ptr<FolderLock> ResultsFolder::lock() const {
  fs::create_directories(path);
  try {
    return std::make_unique<FolderLock>(
        path,
        FolderLockOptions{.job = describe_job(),
                          .advice = "; wait for it, or choose another folder with --output DIR"});
  } catch (const InputError& error) {
    throw InputError(fmt::format("{} in {}", kind, error.what()));
  }
}

void ResultsFolder::write_page() const {
  const auto data = report_data(read_report(std::span(&path, 1)), format_moment(wall_time()));
  write_file_atomically(report(), report_page(data));
}

Study StudyFolder::merged(const Study& planned, const std::string& configuration) const {
  require_free(configuration);
  if (!fs::exists(file())) return planned;
  Study merged = Study::read(file());
  if (merged.scaling != planned.scaling)
    refuse(fmt::format("its scaling is {}, not {}", merged.scaling, planned.scaling));
  if (merged.parallel != planned.parallel)
    refuse(fmt::format("its --parallel is {}, not {}", merged.parallel, planned.parallel));
  if (merged.settings != planned.settings || merged.threads != planned.threads ||
      read_text_file(config()) != configuration)
    refuse("it was made with other settings, or the configuration has changed since");
  for (const StudyPoint& point : planned.points) {
    const auto same = std::ranges::find(merged.points, identity_of(point), identity_of);
    if (same == merged.points.end())
      merged.points.push_back(point);
    else if (same->batch_size != point.batch_size)
      refuse(fmt::format("its run on {} ranks has batches of {} per rank, not {}", point.ranks,
                         same->batch_size, point.batch_size));
  }
  std::ranges::stable_sort(merged.points, {}, &StudyPoint::ranks);
  return merged;
}

void StudyFolder::collect(Study& study) const {
  for (StudyPoint& point : study.points) {
    if (point.folder.empty()) continue;
    const RunFolder folder = run(point);
    if (!fs::exists(folder.history())) continue;
    const History history = History::read(folder.history());
    point.results = results_of(history);
    if (history.summary().empty()) continue;
    point.state = StudyPointState::done;
    point.problem.clear();
  }
}

void StudyFolder::write(Study& study) const {
  fill_in_efficiency(study);
  study.write(file());
}

void StudyFolder::write_report() const {
  for (const auto& point : Study::read(file()).points) {
    if (point.state != StudyPointState::done) continue;
    const auto folder = run(point);
    write_file_atomically(folder.path / "metrics.dat",
                          homework_metrics(History::read(folder.history())));
  }
  write_page();
}

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

}  // namespace kolo
