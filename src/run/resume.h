#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/config/run_config.h"
#include "run/run_folder.h"

// Point at which a run is resumed from a checkpoint, what is different then, and what
// checkpoint.strict_resume refuses of it.
namespace kolo {

struct PreparedRun;

// The default of --resume.
inline constexpr std::string_view newest_checkpoint = "newest";

// State of a run when the checkpoint was saved.
struct ResumePoint {
  std::filesystem::path checkpoint;
  std::int64_t step = 0;      // done, as are
  std::int64_t epoch = 0;     // so many epochs
  std::int64_t position = 0;  // samples of the epoch under way, 0 between two epochs
  std::int64_t best_epoch = 0;
  int ranks = 1;                        // that the run had
  std::optional<std::int64_t> samples;  // that it trained on in an epoch; older ones don't tell
  nlohmann::json made_with;             // see made_with_here(); null: older ones don't tell
  std::filesystem::path run;            // the folder of the run that it belongs to

  // Tells whether the checkpoint is one of `folder`'s own.
  [[nodiscard]] bool is_in(const RunFolder& folder) const;
};

// Differences between the run so far and the run that is resumed.
struct ResumeChanges {
  std::vector<SettingChange> settings;  // but for where the run is and what it is called
  // Those that make samples come in another order than the run so far would have drawn them.
  std::vector<std::string> of_data_order;
  // Ranks, samples per step and rate, in one line; empty: as before.
  std::string of_steps;
  bool are_known = true;  // the settings so far are
};

// Compared with the config.yaml of the run that the checkpoint belongs to (none: nothing differs)
// and with what the checkpoint says. `samples`: that are trained on now, in `steps_of_epoch`. The
// place of data may differ, as long as there are as many samples.
[[nodiscard]] ResumeChanges changes_since(const ResumePoint& point, const RunConfig& config,
                                          const ModelCatalogue& models, int ranks,
                                          std::int64_t samples, std::int64_t steps_of_epoch);

// "seed is 2 instead of 1, ..."
[[nodiscard]] std::string describe(const std::vector<SettingChange>& changes);

// InputError when the order of samples changes.
void require_same_data_order(const ResumeChanges& changes);

// Sentence on a run that is done: how many epochs, the best, and how to train longer. Empty for one
// that has something left to do, its summary for instance. InputError for one that was stopped
// behind the end that it is now to have.
[[nodiscard]] std::string describe_if_finished(const ResumePoint& point, const RunConfig& config,
                                               const RunFolder& folder);

// Refuses, where checkpoint.strict_resume is set, to go on to other bits than the run so far would
// have come to: settings with an effect on results, the number of ranks without virtual ones, or
// what the checkpoint was made with are others, or unknown. InputError lists all. `made_with`: of
// this process; null from a launcher, which doesn't compute.
void require_strict_resume(const PreparedRun& run, int ranks, const nlohmann::json& made_with);

// Whether so many ranks, instead of those that a run was started with, may go on with it.
[[nodiscard]] bool may_have_other_ranks(const RunConfig& config);

// Facts that a run's bits depend on besides its configuration, data and number of ranks.

// "amd-epyc-9654-25-17": name, family and model, as /proc/cpuinfo has them; "processor" where it
// has none.
[[nodiscard]] std::string processor_name(const std::string& cpuinfo);

// Facts of this process: the processor, the threads of a rank, and the versions of the libraries
// that compute, each by the name that people know it by.
[[nodiscard]] nlohmann::json made_with_here();

// "threads per rank 1 instead of 2, LibTorch 2.6.0 instead of 1.13.0"; empty where nothing differs
// or nothing is known of before (checkpoints of earlier versions).
[[nodiscard]] std::string describe_other_making(const nlohmann::json& before,
                                                const nlohmann::json& now);

}  // namespace kolo
