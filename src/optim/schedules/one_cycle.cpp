#include "optim/schedules/schedule_entry.h"

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

std::string_view OneCycle::name() const {
  return "one_cycle";
}

void OneCycle::check(std::int64_t warmup_steps) const {
  schedules::require_steps("one_cycle", "total_steps", total_steps);
  if (!(rising_fraction >= 0 && rising_fraction <= 1))
    schedules::refuse("one_cycle", "rising_fraction", rising_fraction, "a number from 0 to 1");
  schedules::require_positive("one_cycle", "initial_divisor", initial_divisor);
  schedules::require_positive("one_cycle", "final_divisor", final_divisor);
  if (warmup_steps == 0) return;
  throw InputError(
      fmt::format("learning rate: a warm-up over {} steps with the one_cycle schedule, which is "
                  "its own warm-up; give one of the two",
                  warmup_steps));
}

double OneCycle::factor(std::int64_t step, std::int64_t /*warmup_steps*/) const {
  const auto total = static_cast<double>(total_steps);
  const double first = 1 / initial_divisor;
  const double last = first / final_divisor;
  const double top = rising_fraction * total - 1;  // the step with the highest rate
  const auto now = static_cast<double>(step);
  if (top > 0 && now <= top) return schedules::cosine_between(first, 1, now / top);
  if (now >= total - 1) return last;
  return schedules::cosine_between(1, last, (now - top) / (total - 1 - top));
}

namespace schedules {

struct OneCycleSettings : NoSettings {
  [[nodiscard]] Schedule make(const ScheduleRequest& request) const {
    return OneCycle{request.total_steps};
  }
};

ScheduleEntry one_cycle() {
  auto entry =
      entry_of<OneCycleSettings>("one_cycle", "up and down again, as PyTorch's OneCycleLR");
  entry.is_own_warmup = true;
  return entry;
}

}  // namespace schedules
}  // namespace kolo
