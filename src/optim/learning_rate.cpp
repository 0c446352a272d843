#include "kolo/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

[[noreturn]] void refuse(std::string_view schedule, std::string_view option, double value,
                         std::string_view accepts) {
  throw InputError(fmt::format("learning rate: {} of the {} schedule is {}, expected {}", option,
                               schedule, value, accepts));
}

void require_not_negative(std::string_view schedule, std::string_view option, double value) {
  if (!std::isfinite(value) || value < 0) refuse(schedule, option, value, "a number of 0 or more");
}

void require_positive(std::string_view schedule, std::string_view option, double value) {
  if (!std::isfinite(value) || value <= 0) refuse(schedule, option, value, "a number above 0");
}

void require_steps(std::string_view schedule, std::string_view option, std::int64_t steps) {
  if (steps >= 1) return;
  throw InputError(fmt::format("learning rate: {} of the {} schedule is {}, expected 1 or more",
                               option, schedule, steps));
}

// The end of a ramp on half a period of a cosine; progress from 0 to 1.
double cosine_between(double from, double to, double progress) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

// How much of a decay is behind: 0 at the end of the warm-up, 1 after `total` steps and later. A
// warm-up that takes all of them leaves nothing to decay over.
double decay_progress(std::int64_t step, std::int64_t warmup, std::int64_t total) {
  if (step >= total) return 1;
  if (step <= warmup) return 0;
  return static_cast<double>(step - warmup) / static_cast<double>(total - warmup);
}

struct Name {
  std::string_view operator()(const ConstantRate&) const { return "constant"; }
  std::string_view operator()(const PiecewiseRate&) const { return "piecewise"; }
  std::string_view operator()(const CosineDecay&) const { return "cosine"; }
  std::string_view operator()(const ShiftedCosineDecay&) const { return "cosine_shifted"; }
  std::string_view operator()(const PolynomialDecay&) const { return "polynomial"; }
  std::string_view operator()(const OneCycle&) const { return "one_cycle"; }
};

// `before` is the previous interval, none for the first.
void check_interval(const RateInterval& interval, const RateInterval* before, std::size_t number) {
  const auto require = [&](bool accepted, std::string_view option, double value,
                           const std::string& accepts) {
    if (accepted) return;
    throw InputError(
        fmt::format("learning rate: {} of interval {} of the piecewise schedule is {}, expected {}",
                    option, number, value, accepts));
  };
  const double start = interval.start_epoch;
  require(std::isfinite(start) && start >= 0, "start_epoch", start, "a number of 0 or more");
  if (before != nullptr) {
    require(start > before->start_epoch && start >= before->end_epoch.value_or(0), "start_epoch",
            start, "an epoch after the interval before: they come in order and don't overlap");
  }
  if (interval.end_epoch) {
    require(std::isfinite(*interval.end_epoch) && *interval.end_epoch > start, "end_epoch",
            *interval.end_epoch, fmt::format("more than its start_epoch, {}", start));
  }
  require(std::isfinite(interval.multiplier) && interval.multiplier >= 0, "multiplier",
          interval.multiplier, "a number of 0 or more");
}

struct Check {
  std::int64_t warmup_steps;

  void operator()(const ConstantRate&) const {}

  void operator()(const PiecewiseRate& schedule) const {
    require_steps("piecewise", "steps_per_epoch", schedule.steps_per_epoch);
    const RateInterval* before = nullptr;
    std::size_t number = 0;
    for (const RateInterval& interval : schedule.intervals) {
      check_interval(interval, before, ++number);
      before = &interval;
    }
  }

  void operator()(const CosineDecay& schedule) const {
    require_steps("cosine", "total_steps", schedule.total_steps);
    require_not_negative("cosine", "final_fraction", schedule.final_fraction);
  }

  void operator()(const ShiftedCosineDecay& schedule) const {
    require_steps("cosine_shifted", "total_steps", schedule.total_steps);
    require_not_negative("cosine_shifted", "final_fraction", schedule.final_fraction);
  }

  void operator()(const PolynomialDecay& schedule) const {
    require_steps("polynomial", "total_steps", schedule.total_steps);
    require_positive("polynomial", "power", schedule.power);
    require_not_negative("polynomial", "final_fraction", schedule.final_fraction);
  }

  void operator()(const OneCycle& schedule) const {
    require_steps("one_cycle", "total_steps", schedule.total_steps);
    if (!(schedule.rising_fraction >= 0 && schedule.rising_fraction <= 1))
      refuse("one_cycle", "rising_fraction", schedule.rising_fraction, "a number from 0 to 1");
    require_positive("one_cycle", "initial_divisor", schedule.initial_divisor);
    require_positive("one_cycle", "final_divisor", schedule.final_divisor);
    if (warmup_steps == 0) return;
    throw InputError(
        fmt::format("learning rate: a warm-up over {} steps with the one_cycle schedule, which is "
                    "its own warm-up; give one of the two",
                    warmup_steps));
  }
};

struct Factor {
  std::int64_t step;
  std::int64_t warmup_steps;

  double operator()(const ConstantRate&) const { return 1; }

  double operator()(const PiecewiseRate& schedule) const {
    const auto epochs = static_cast<double>(schedule.steps_per_epoch);
    double factor = 1;
    for (const RateInterval& interval : schedule.intervals) {
      if (static_cast<double>(step) < std::floor(interval.start_epoch * epochs + 0.5)) break;
      factor = interval.multiplier;
    }
    return factor;
  }

  double operator()(const CosineDecay& schedule) const {
    const double progress = decay_progress(step, warmup_steps, schedule.total_steps);
    return cosine_between(1, schedule.final_fraction, progress);
  }

  double operator()(const ShiftedCosineDecay& schedule) const {
    const double behind = static_cast<double>(step + 1 - warmup_steps);
    const double progress = std::min(behind / static_cast<double>(schedule.total_steps), 1.);
    return cosine_between(1, schedule.final_fraction, progress);
  }

  double operator()(const PolynomialDecay& schedule) const {
    const double progress = decay_progress(step, warmup_steps, schedule.total_steps);
    return schedule.final_fraction +
           (1 - schedule.final_fraction) * std::pow(1 - progress, schedule.power);
  }

  double operator()(const OneCycle& schedule) const {
    const auto total = static_cast<double>(schedule.total_steps);
    const double first = 1 / schedule.initial_divisor;
    const double last = first / schedule.final_divisor;
    const double top = schedule.rising_fraction * total - 1;  // the step with the highest rate
    const auto now = static_cast<double>(step);
    if (top > 0 && now <= top) return cosine_between(first, 1, now / top);
    if (now >= total - 1) return last;
    return cosine_between(1, last, (now - top) / (total - 1 - top));
  }
};

// InputError for values out of range, and for a warm-up where the schedule takes none.
void check_schedule(const Schedule& schedule, std::int64_t warmup_steps) {
  std::visit(Check{warmup_steps}, schedule);
}

// The factor on the scaled rate in the step that follows `step` completed ones; for steps after
// the warm-up. Of a schedule that check_schedule() passed.
double schedule_factor(const Schedule& schedule, std::int64_t step, std::int64_t warmup_steps) {
  return std::visit(Factor{step, warmup_steps}, schedule);
}

}  // namespace

std::string_view schedule_name(const Schedule& schedule) {
  return std::visit(Name{}, schedule);
}

Scaling scaling_named(const std::string& name) {
  return named<Scaling>("learning rate", "scaling", name);
}

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
  check_schedule(plan_.schedule, plan_.warmup_steps);
}

double LearningRate::at(std::int64_t step) const {
  if (step < 0) throw Error(fmt::format("learning rate: step {}, expected 0 or more", step));
  if (step >= plan_.warmup_steps)
    return scaled_rate_ * schedule_factor(plan_.schedule, step, plan_.warmup_steps);
  const double done = static_cast<double>(step + 1) / static_cast<double>(plan_.warmup_steps);
  const double begin = plan_.warmup_from * plan_.base_rate;
  return std::lerp(begin, scaled_rate_, done);
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
