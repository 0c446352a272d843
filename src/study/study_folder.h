#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/base/folder_lock.h"
#include "kolo/run/launch_ranks.h"
#include "kolo/study/scale_study.h"
#include "kolo/study/sweep.h"
#include "kolo/train/observe/study.h"
#include "kolo/train/observe/sweep.h"
#include "run/run_folder.h"

namespace kolo {

// The folder of a study or a sweep (`kind`): study.json, config.yaml, report.html, and
// the folders of its runs.
struct ResultsFolder {
  std::string kind;
  std::filesystem::path path;

  [[nodiscard]] std::filesystem::path file() const { return path / (kind + ".json"); }
  [[nodiscard]] std::filesystem::path config() const { return path / "config.yaml"; }
  [[nodiscard]] std::filesystem::path report() const { return path / "report.html"; }

  // InputError that names the folder and advises another one.
  [[noreturn]] void refuse(const std::string& reason) const;
  // InputError: it can't be written to, or holds something that is no study or sweep and would be
  // overwritten. `configuration`: as resolved, in YAML.
  void require_free(const std::string& configuration) const;
  // Makes the folder and keeps it for this process. InputError, which says who has it: it is in
  // use.
  [[nodiscard]] std::unique_ptr<FolderLock> lock() const;
  // Writes report.html of what is in the folder.
  void write_page() const;
};

// A study's folder; its runs are in runs/.
struct StudyFolder : ResultsFolder {
  explicit StudyFolder(std::filesystem::path folder = {})
      : ResultsFolder{"study", std::move(folder)} {}

  [[nodiscard]] RunFolder run(const StudyPoint& point) const { return {path / point.folder}; }

  // The study that is there with the points that are new, or the planned one where there is none.
  // InputError: the folder holds the study of another configuration, of other settings or batches,
  // or something else.
  [[nodiscard]] Study merged(const Study& planned, const std::string& configuration) const;

  // Reads the runs' histories: a finished run makes its points done, with their results. Points
  // that are submitted or have failed stay so otherwise.
  void collect(Study& study) const;

  // Writes study.json, with efficiencies.
  void write(Study& study) const;

  // Writes report.html of the study and its runs, and into each run's folder metrics.dat, for the
  // homework of Argonne's training series: a line an epoch for numpy.loadtxt(), with accuracy and
  // loss of training, then of validation, and the epoch's seconds.
  void write_report() const;
};

// Does the remaining runs one after another, and writes the study after each. An interrupted run
// resumes from its checkpoint; one that fails is noted and does not stop the others. False: a
// signal asked to stop.
[[nodiscard]] bool run_points(const ScaleRequest& request, const StudyFolder& folder, Study& study);

// Completes the options. InputError: an unknown scheduler, its command is not in
// PATH, no script where one was named, or kolo's own can't be found.
[[nodiscard]] SchedulerOptions checked(SchedulerOptions options);

// Submits the runs that are neither done nor submitted; writes the study after each. A job that
// ended without finishing its run is submitted again.
void submit_points(const ScaleRequest& request, const StudyFolder& folder, Study& study);

// InputError: a launcher has started this process as one of several; `command` starts ranks itself.
void require_no_launcher(std::string_view command);

// Lists the remaining runs with their commands, for people.
[[nodiscard]] std::string describe_plan(const ScaleRequest& request, const StudyFolder& folder,
                                        const Study& study);

// A sweep's folder; its runs are in trials/, their output in output/.
struct SweepFolder : ResultsFolder {
  SweepFolder() : ResultsFolder{"sweep", {}} {}

  [[nodiscard]] RunFolder run(const Trial& trial) const { return {path / trial.folder}; }
  [[nodiscard]] std::filesystem::path output(const Trial& trial) const;

  // The sweep that is there with the trials that are new, or the planned one where there is none.
  // InputError, which says what differs: the folder holds another sweep, or something else.
  [[nodiscard]] Sweep merged(const Sweep& planned, const std::string& configuration) const;

  // Reads the histories of the trials' runs.
  void collect(Sweep& sweep) const;
  // Reads that of one trial, if it has begun.
  void collect(Trial& trial, const std::string& metric) const;
};

// Settings that all trials are run with.
struct TrialSetting {
  SweepRequest request;
  MachineFacts machine;
  std::vector<TrialSite> sites;
  std::vector<std::int64_t> epochs;  // of each trial in all
};

// Runs the remaining trials, and writes sweep.json after every change. True: it was stopped.
[[nodiscard]] bool run_trials(const TrialSetting& setting, const SweepFolder& folder, Sweep& sweep);

// Tells whether this call has to run the trial.
[[nodiscard]] bool is_to_do(const Trial& trial);

// The words of `kolo train` for the trial, after the program.
[[nodiscard]] std::vector<std::string> trial_words(const TrialSetting& setting,
                                                   const SweepFolder& folder, const Sweep& sweep,
                                                   const Trial& trial, const TrialSite& place);

}  // namespace kolo
