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

// Point at which a run is resumed from a checkpoint, and what is different then.
namespace kolo {

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

}  // namespace kolo
