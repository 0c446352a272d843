#include "kolo/optim/learning_rate.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

double scale_factor(Scaling scaling, double ratio) {
  if (!(ratio > 0) || !std::isfinite(ratio)) {
    throw Error(
        fmt::format("learning rate: scaled by {} ranks or batches, expected more than 0", ratio));
  }
  switch (scaling) {
    case Scaling::none:
      return 1;
    case Scaling::linear:
      return ratio;
    case Scaling::sqrt:
      return std::sqrt(ratio);
  }
  throw Error("learning rate: not a scaling");
}

LearningRate::LearningRate(LearningRatePlan plan)
    : plan_(std::move(plan)),
      scaled_rate_(plan_.base_rate * scale_factor(plan_.scaling, plan_.batch_ratio)) {
  if (!std::isfinite(plan_.base_rate) || plan_.base_rate < 0) {
    throw InputError(fmt::format("learning rate: the rate is {}, expected a number of 0 or more",
                                 plan_.base_rate));
  }
  if (plan_.warmup_steps < 0) {
    throw InputError(fmt::format("learning rate: warm-up over {} steps, expected 0 or more",
                                 plan_.warmup_steps));
  }
  if (!(plan_.warmup_from >= 0 && plan_.warmup_from <= 1)) {
    throw InputError(
        fmt::format("learning rate: warm-up from {} of the rate, expected a number from 0 to 1",
                    plan_.warmup_from));
  }
  if (plan_.warmup_only_when_scaled && !(scaled_rate_ > plan_.base_rate)) plan_.warmup_steps = 0;
  std::visit([this](const auto& schedule) { schedule.check(plan_.warmup_steps); }, plan_.schedule);
}

double LearningRate::at(std::int64_t step) const {
  if (step < 0) throw Error(fmt::format("learning rate: step {}, expected 0 or more", step));
  if (step >= plan_.warmup_steps) {
    return scaled_rate_ *
           std::visit(
               [&](const auto& schedule) { return schedule.factor(step, plan_.warmup_steps); },
               plan_.schedule);
  }
  const double done = static_cast<double>(step + 1) / static_cast<double>(plan_.warmup_steps);
  const double begin = plan_.warmup_from * plan_.base_rate;
  return std::lerp(begin, scaled_rate_, done);
}

std::string_view LearningRate::schedule_name() const {
  return std::visit([](const auto& schedule) { return schedule.name(); }, plan_.schedule);
}

LearningRate LearningRate::with_warmup(std::int64_t steps) const {
  auto plan = plan_;
  plan.warmup_steps = steps;
  return LearningRate(std::move(plan));
}

std::int64_t warmup_steps_of(double epochs, std::int64_t steps_per_epoch) {
  if (steps_per_epoch < 0) {
    throw Error(
        fmt::format("learning rate: {} steps per epoch, expected 0 or more", steps_per_epoch));
  }
  const double steps = std::floor(epochs * static_cast<double>(steps_per_epoch) + 0.5);
  if (!(epochs >= 0) || !(steps < 0x1p62)) {
    throw InputError(fmt::format(
        "learning rate: warm-up over {} epochs of {} steps, expected a number of 0 or more", epochs,
        steps_per_epoch));
  }
  return static_cast<std::int64_t>(steps);
}

}  // namespace kolo
