#include <algorithm>

#include "optim/schedules/schedule_entry.h"

namespace kolo {

std::string_view CosineDecay::name() const {
  return "cosine";
}

void CosineDecay::check(std::int64_t /*warmup_steps*/) const {
  schedules::require_steps("cosine", "total_steps", total_steps);
  schedules::require_not_negative("cosine", "final_fraction", final_fraction);
}

double CosineDecay::factor(std::int64_t step, std::int64_t warmup_steps) const {
  const double progress = schedules::decay_progress(step, warmup_steps, total_steps);
  return schedules::cosine_between(1, final_fraction, progress);
}

namespace schedules {

struct Cosine {
  double final_fraction = 0;

  [[nodiscard]] Schedule make(const ScheduleRequest& request) const {
    return CosineDecay{request.total_steps, final_fraction};
  }
};

template <typename Field>
void visit(Field& field, Cosine& decay) {
  visit_final_fraction(field, decay.final_fraction);
}

ScheduleEntry cosine() {
  return entry_of<Cosine>(
      "cosine", "half a period of a cosine, from the end of the warm-up to the last step");
}

}  // namespace schedules

std::string_view ShiftedCosineDecay::name() const {
  return "cosine_shifted";
}

void ShiftedCosineDecay::check(std::int64_t /*warmup_steps*/) const {
  schedules::require_steps("cosine_shifted", "total_steps", total_steps);
  schedules::require_not_negative("cosine_shifted", "final_fraction", final_fraction);
}

double ShiftedCosineDecay::factor(std::int64_t step, std::int64_t warmup_steps) const {
  const double behind = static_cast<double>(step + 1 - warmup_steps);
  const double progress = std::min(behind / static_cast<double>(total_steps), 1.);
  return schedules::cosine_between(1, final_fraction, progress);
}

namespace schedules {

struct CosineShifted {
  double final_fraction = 0;

  [[nodiscard]] Schedule make(const ScheduleRequest& request) const {
    return ShiftedCosineDecay{request.total_steps, final_fraction};
  }
};

template <typename Field>
void visit(Field& field, CosineShifted& decay) {
  visit_final_fraction(field, decay.final_fraction);
}

ScheduleEntry cosine_shifted() {
  return entry_of<CosineShifted>(
      "cosine_shifted", "the same half period, as long as the training, shifted by the warm-up");
}

}  // namespace schedules
}  // namespace kolo
