#pragma once

#include <cstdint>

#include "kolo/optim/schedule.h"

namespace kolo::optim {

// InputError for values out of range, and for a warm-up where the schedule takes none.
void check_schedule(const Schedule& schedule, std::int64_t warmup_steps);

// The factor on the scaled rate in the step that follows `step` completed ones; for steps after
// the warm-up. Of a schedule that check_schedule() passed.
double schedule_factor(const Schedule& schedule, std::int64_t step, std::int64_t warmup_steps);

}  // namespace kolo::optim
