#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "kolo/base/folder_lock.h"
#include "kolo/train/observe/study.h"
#include "kolo/study/scale_study.h"
#include "run/run_folder.h"

namespace kolo {

// The folder of a study: study.json, study.csv, config.yaml, report.html, and runs/, the folders of
// its runs.
struct StudyFolder {
  std::filesystem::path path;

  [[nodiscard]] std::filesystem::path study_file() const { return path / "study.json"; }
  [[nodiscard]] std::filesystem::path table() const { return path / "study.csv"; }
  [[nodiscard]] std::filesystem::path config() const { return path / "config.yaml"; }
  [[nodiscard]] std::filesystem::path report() const { return path / "report.html"; }
  [[nodiscard]] RunFolder run(const StudyPoint& point) const { return {path / point.folder}; }

  // InputError: the folder holds the study of another configuration, of other settings or batches,
  // or something else. `configuration`: as resolved, in YAML.
  void require_same(const Study& study, const std::string& configuration) const;

  // How many threads per rank has in the study that is there; 0 without one, or where that was not
  // the study's choice.
  [[nodiscard]] int threads() const;

  // Makes the folder and keeps it for this process. InputError, which says who has it: it is in
  // use.
  [[nodiscard]] std::unique_ptr<FolderLock> lock() const;

  // Makes the folder, or goes on with it: points that are only in the study.json that is there are
  // kept.
  [[nodiscard]] Study open(const Study& study, const std::string& configuration) const;

  // Looks at what the runs have written: a finished run makes its points done, with their results;
  // what a scheduler was doing or has failed stays so otherwise.
  void collect(Study& study) const;

  // study.json and study.csv, with efficiencies.
  void write(Study& study) const;

  // report.html, of the study as it was written and its runs; metrics.dat in each of these, the
  // columns that the homework of Argonne's training series plots: accuracy and loss of training,
  // then of validation, and the seconds of an epoch; a line an epoch, for numpy.loadtxt().
  void write_report() const;
};

// Runs what is not done yet, one after another, and writes the study after each: a run that was
// interrupted goes on from its checkpoint, one that fails is noted and does not stop the others.
// Says what it does. False: a signal asked to stop.
[[nodiscard]] bool run_points(const StudyRequest& request, const StudyFolder& folder, Study& study,
                              const RunningOptions& options);

// Hands over to the scheduler what is not done and what it does not have yet; writes the study
// after each. A job that ended without finishing its run is handed over again.
void submit_points(const StudyRequest& request, const StudyFolder& folder, Study& study,
                   const SchedulerOptions& scheduler, const RunningOptions& options);

// InputError: a launcher has started this process, as one of several; `command` starts them itself.
void require_no_launcher(std::string_view command);

// For people: which runs there are and what each would be started with.
[[nodiscard]] std::string describe_plan(const StudyRequest& request, const StudyFolder& folder,
                                        const Study& study);

}  // namespace kolo
