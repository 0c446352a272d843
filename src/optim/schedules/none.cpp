#include "optim/schedules/schedule_entry.h"

namespace kolo::schedules {

struct None : NoSettings {
  [[nodiscard]] Schedule make(const ScheduleRequest& request) const {
    if (request.intervals.empty()) return ConstantRate{};
    return PiecewiseRate{request.intervals, request.steps_per_epoch};
  }
};

ScheduleEntry none() {
  auto entry = entry_of<None>("none", "the rate stays, or is what it is told to be by epochs");
  entry.takes_intervals = true;
  return entry;
}

}  // namespace kolo::schedules
