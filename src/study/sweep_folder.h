#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kolo/run/launch_ranks.h"
#include "kolo/train/observe/sweep.h"
#include "kolo/study/sweep.h"
#include "run/run_folder.h"

namespace kolo {

// The folder of a sweep: sweep.json, sweep.csv, config.yaml, report.html, trials/, the folders of
// its runs, and output/, what those have printed.
struct SweepFolder {
  std::filesystem::path path;

  [[nodiscard]] std::filesystem::path sweep_file() const { return path / "sweep.json"; }
  [[nodiscard]] std::filesystem::path table() const { return path / "sweep.csv"; }
  [[nodiscard]] std::filesystem::path config() const { return path / "config.yaml"; }
  [[nodiscard]] std::filesystem::path report() const { return path / "report.html"; }
  [[nodiscard]] RunFolder run(const Trial& trial) const { return {path / trial.folder}; }
  [[nodiscard]] std::filesystem::path output(const Trial& trial) const;

  // The sweep that is there with the trials that are new, or the planned one where there is none.
  // InputError, which says what differs: the folder holds another sweep, or something else.
  // `configuration`: as resolved, in YAML.
  [[nodiscard]] Sweep merged(const Sweep& planned, const std::string& configuration) const;

  // Looks at what the trials' runs have written.
  void collect(Sweep& sweep) const;
  // The same of one. False: it has not begun.
  bool collect(Trial& trial, const std::string& metric) const;

  void write_report(const Sweep& sweep) const;
};

// What trials are run with.
struct TrialSetting {
  SweepRequest request;
  MachineFacts machine;
  std::vector<TrialPlace> places;
  std::vector<std::int64_t> epochs;  // of each trial in all
};

enum class TrialsEnd : std::uint8_t { all_done, stopped };

// Runs what is to be done, and writes sweep.json after every change.
[[nodiscard]] TrialsEnd run_trials(const TrialSetting& setting, const SweepFolder& folder,
                                   Sweep& sweep);

[[nodiscard]] inline bool is_halving(const Sweep& sweep) {
  return !sweep.rungs.empty();
}

// For people, when a part of a trial is over: "trial 3 (lr 0.01): val_accuracy 91.24 % in epoch 4
// of 5, 12.3 s; 5 of 16 over, best trial 2 with 92.01 %, 1 min 20 s left".
[[nodiscard]] std::string describe_end(const TrialSetting& setting, const Sweep& sweep,
                                       const Trial& trial);

// Whether this call has to run the trial, which may have to wait for others.
[[nodiscard]] bool is_to_do(const Sweep& sweep, const Trial& trial);

// The words of `kolo train` for the trial's next part, up to its rung's end where it is one of
// halving, after the program.
[[nodiscard]] std::vector<std::string> trial_words(const TrialSetting& setting,
                                                   const SweepFolder& folder, const Sweep& sweep,
                                                   const Trial& trial, const TrialPlace& place);

}  // namespace kolo
