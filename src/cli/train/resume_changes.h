#pragma once

#include <string>
#include <vector>

#include "cli/train/resume.h"
#include "kolo/config/compare.h"

namespace kolo {

// What is different where a run goes on.
struct ResumeChanges {
  std::vector<SettingChange> settings;  // but for where the run is and what it is called
  // Those that make samples come in another order than the run so far would have drawn them.
  std::vector<std::string> of_data_order;
  // Ranks, samples a step and rate, in one line; empty: as before.
  std::string of_steps;
};

// Compared with the config.yaml of the run that the checkpoint belongs to (none: nothing differs)
// and with what the checkpoint says. `samples`: that are trained on now, in `steps_of_epoch`. The
// place of data may differ, as long as there are as many samples.
[[nodiscard]] ResumeChanges changes_since(const ResumePoint& point, const RunConfig& config,
                                          int ranks, std::int64_t samples,
                                          std::int64_t steps_of_epoch);

// "seed is 2 instead of 1, ..."
[[nodiscard]] std::string describe(const std::vector<SettingChange>& changes);

// InputError when the order of samples changes.
void require_same_data_order(const ResumeChanges& changes);

// How a run that is done calls itself: how many epochs, the best, and how to train longer. Empty
// for one that has something left to do, its summary for instance. InputError for one that was
// stopped behind the end that it is now to have.
[[nodiscard]] std::string describe_if_finished(const ResumePoint& point, const RunConfig& config,
                                               const RunFolder& folder);

}  // namespace kolo
