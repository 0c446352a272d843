#include "kolo/optim/learning_rate.h"

#include <cmath>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

Scaling scaling_named(const std::string& name) {
  if (name == "none") return Scaling::none;
  if (name == "linear") return Scaling::linear;
  if (name == "sqrt") return Scaling::sqrt;
  throw InputError(fmt::format(
      "learning rate: unknown scaling \"{}\", expected one of none, linear, sqrt", name));
}

double scale_factor(Scaling scaling, int ranks) {
  if (ranks < 1) throw Error(fmt::format("learning rate: {} ranks, expected 1 or more", ranks));
  switch (scaling) {
    case Scaling::none:
      return 1;
    case Scaling::linear:
      return ranks;
    case Scaling::sqrt:
      return std::sqrt(ranks);
  }
  throw Error("learning rate: not a scaling");
}

LearningRate::LearningRate(const LearningRatePlan& plan)
    : base_rate_(plan.base_rate),
      scaled_rate_(plan.base_rate * scale_factor(plan.scaling, plan.ranks)),
      warmup_steps_(plan.warmup_steps) {
  if (!std::isfinite(base_rate_) || base_rate_ < 0) {
    throw InputError(
        fmt::format("learning rate: the rate is {}, expected a number of 0 or more", base_rate_));
  }
  if (warmup_steps_ < 0) {
    throw InputError(
        fmt::format("learning rate: warm-up over {} steps, expected 0 or more", warmup_steps_));
  }
}

double LearningRate::at(std::int64_t step) const {
  if (step < 0) throw Error(fmt::format("learning rate: step {}, expected 0 or more", step));
  if (step >= warmup_steps_) return scaled_rate_;
  const double done = static_cast<double>(step) / static_cast<double>(warmup_steps_);
  return base_rate_ + (scaled_rate_ - base_rate_) * done;
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
