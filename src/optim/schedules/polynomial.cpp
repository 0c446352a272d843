#include "optim/schedules/schedule_entry.h"

#include <cmath>

namespace kolo {

std::string_view PolynomialDecay::name() const {
  return "polynomial";
}

void PolynomialDecay::check(std::int64_t /*warmup_steps*/) const {
  schedules::require_steps("polynomial", "total_steps", total_steps);
  schedules::require_positive("polynomial", "power", power);
  schedules::require_not_negative("polynomial", "final_fraction", final_fraction);
}

double PolynomialDecay::factor(std::int64_t step, std::int64_t warmup_steps) const {
  const double progress = schedules::decay_progress(step, warmup_steps, total_steps);
  return final_fraction + (1 - final_fraction) * std::pow(1 - progress, power);
}

namespace schedules {

struct Polynomial {
  double final_fraction = 0;
  double power = 1;

  [[nodiscard]] Schedule make(const ScheduleRequest& request) const {
    return PolynomialDecay{request.total_steps, power, final_fraction};
  }
};

template <typename Field>
void visit(Field& field, Polynomial& decay) {
  visit_final_fraction(field, decay.final_fraction);
  field("lr_decay_power", decay.power, positive);
}

ScheduleEntry polynomial() {
  return entry_of<Polynomial>("polynomial", "a power of what is left of the training");
}

}  // namespace schedules
}  // namespace kolo
