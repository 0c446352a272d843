#pragma once

#include <string>
#include <string_view>

#include "kolo/optim/catalogue.h"
#include "settings/choice_reader.h"

// What entries of the catalogue share. An entry is a struct of settings with a visit() for its keys
// and
//   Schedule make(const ScheduleRequest& request) const;
// and, where it needs them, check() and complete() (see set_settings). What it makes is a type with
// name(), check() and factor() (see RateSchedule), which may stand in the same file.
namespace kolo::schedules {

template <ConfigStruct T>
[[nodiscard]] ScheduleEntry entry_of(const std::string& name, const std::string& description) {
  ScheduleEntry entry{{name, description}};
  set_settings<T>(entry);
  entry.make = [](const OwnSettings& own, const ScheduleRequest& request) {
    return own.as<T>().make(request);
  };
  return entry;
}

// Of decays that leave something.
template <typename Field>
void visit_final_fraction(Field& field, double& fraction_left) {
  field("lr_final_fraction", fraction_left, not_negative);
}

// InputErrors, for check().
[[noreturn]] void refuse(std::string_view schedule, std::string_view option, double value,
                         std::string_view accepts);
void require_not_negative(std::string_view schedule, std::string_view option, double value);
void require_positive(std::string_view schedule, std::string_view option, double value);
void require_steps(std::string_view schedule, std::string_view option, std::int64_t steps);

// The end of a ramp on half a period of a cosine; progress from 0 to 1.
[[nodiscard]] double cosine_between(double from, double to, double progress);

// How much of a decay is behind: 0 at the end of the warm-up, 1 after `total` steps and later. A
// warm-up that takes all of them leaves nothing to decay over.
[[nodiscard]] double decay_progress(std::int64_t step, std::int64_t warmup, std::int64_t total);

}  // namespace kolo::schedules
