#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/optim/catalogue.h"
#include "settings/choice_reader.h"

// The schedules, and their entries in the catalogue.
namespace kolo {

namespace {

// InputErrors, for check().

[[noreturn]] void refuse(std::string_view schedule, std::string_view option, double value,
                         std::string_view accepts) {
  throw InputError(fmt::format("learning rate: {} of the {} schedule is {}, expected {}", option,
                               schedule, value, accepts));
}

void require_positive(std::string_view schedule, std::string_view option, double value) {
  if (!std::isfinite(value) || value <= 0) refuse(schedule, option, value, "a number above 0");
}

void require_steps(std::string_view schedule, std::string_view option, std::int64_t steps) {
  if (steps < 1) refuse(schedule, option, static_cast<double>(steps), "1 or more");
}

template <typename Decay>
void check_decay(const Decay& decay) {
  require_steps(decay.name(), "total_steps", decay.total_steps);
  const double fraction = decay.final_fraction;
  if (!std::isfinite(fraction) || fraction < 0)
    refuse(decay.name(), "final_fraction", fraction, "a number of 0 or more");
}

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

// Value of a ramp on half a period of a cosine; progress from 0 to 1.
double cosine_between(double from, double to, double progress) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

// Progress of a decay: 0 at the end of the warm-up, 1 after `total` steps and later. A
// warm-up that takes all of them leaves nothing to decay over.
double decay_progress(std::int64_t step, std::int64_t warmup, std::int64_t total) {
  if (step >= total) return 1;
  if (step <= warmup) return 0;
  return static_cast<double>(step - warmup) / static_cast<double>(total - warmup);
}

}  // namespace

void PiecewiseRate::check(std::int64_t /*warmup_steps*/) const {
  require_steps(name(), "steps_per_epoch", steps_per_epoch);
  const RateInterval* before = nullptr;
  std::size_t number = 0;
  for (const RateInterval& interval : intervals) {
    check_interval(interval, before, ++number);
    before = &interval;
  }
}

double PiecewiseRate::factor(std::int64_t step, std::int64_t /*warmup_steps*/) const {
  const auto epochs = static_cast<double>(steps_per_epoch);
  double factor = 1;
  for (const RateInterval& interval : intervals) {
    if (static_cast<double>(step) < std::floor(interval.start_epoch * epochs + 0.5)) break;
    factor = interval.multiplier;
  }
  return factor;
}

void CosineDecay::check(std::int64_t /*warmup_steps*/) const {
  check_decay(*this);
}

double CosineDecay::factor(std::int64_t step, std::int64_t warmup_steps) const {
  const double behind = static_cast<double>(step + 1 - warmup_steps);
  const double progress = is_shifted ? std::min(behind / static_cast<double>(total_steps), 1.)
                                     : decay_progress(step, warmup_steps, total_steps);
  return cosine_between(1, final_fraction, progress);
}

void PolynomialDecay::check(std::int64_t /*warmup_steps*/) const {
  check_decay(*this);
  require_positive(name(), "power", power);
}

double PolynomialDecay::factor(std::int64_t step, std::int64_t warmup_steps) const {
  const double progress = decay_progress(step, warmup_steps, total_steps);
  return final_fraction + (1 - final_fraction) * std::pow(1 - progress, power);
}

void OneCycle::check(std::int64_t warmup_steps) const {
  require_steps(name(), "total_steps", total_steps);
  if (!(rising_fraction >= 0 && rising_fraction <= 1))
    refuse(name(), "rising_fraction", rising_fraction, "a number from 0 to 1");
  require_positive(name(), "initial_divisor", initial_divisor);
  require_positive(name(), "final_divisor", final_divisor);
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
  if (top > 0 && now <= top) return cosine_between(first, 1, now / top);
  if (now >= total - 1) return last;
  return cosine_between(1, last, (now - top) / (total - 1 - top));
}

template <typename Field>
void visit(Field& field, CosineDecay& decay) {
  field("lr_final_fraction", decay.final_fraction, not_negative);
}

template <typename Field>
void visit(Field& field, PolynomialDecay& decay) {
  field("lr_final_fraction", decay.final_fraction, not_negative);
  field("lr_decay_power", decay.power, positive);
}

template <typename Field>
void visit(Field& /*field*/, OneCycle& /*cycle*/) {}

namespace schedules {

// An entry is a schedule with a visit() for its keys, under the schedule's own name.
template <ConfigStruct T>
[[nodiscard]] ScheduleEntry entry_of(const std::string& description, const T& defaults = {}) {
  ScheduleEntry entry{{std::string(defaults.name()), description}};
  set_settings<T>(entry, defaults);
  entry.make = [](const OwnSettings& own, const ScheduleRequest& request) {
    auto schedule = own.as<T>();
    schedule.total_steps = request.total_steps;
    return Schedule(schedule);
  };
  return entry;
}

ScheduleEntry none() {
  ScheduleEntry entry{{"none", "the rate stays, or is what it is told to be by epochs"}};
  set_settings<NoSettings>(entry);
  entry.make = [](const OwnSettings&, const ScheduleRequest& request) -> Schedule {
    if (request.intervals.empty()) return ConstantRate{};
    return PiecewiseRate{request.intervals, request.steps_per_epoch};
  };
  entry.takes_intervals = true;
  return entry;
}

ScheduleEntry cosine() {
  return entry_of<CosineDecay>(
      "half a period of a cosine, from the end of the warm-up to the last step");
}

ScheduleEntry cosine_shifted() {
  return entry_of<CosineDecay>(
      "the same half period, as long as the training, shifted by the warm-up",
      {.is_shifted = true});
}

ScheduleEntry polynomial() {
  return entry_of<PolynomialDecay>("a power of what is left of the training");
}

ScheduleEntry one_cycle() {
  auto entry = entry_of<OneCycle>(
      "up and down again, as PyTorch's OneCycleLR without its cycle of momentum");
  entry.is_own_warmup = true;
  return entry;
}

}  // namespace schedules

const ScheduleEntry& schedule_entry(std::string_view name) {
  return entry_named(built_in_schedules(), name, "optim: unknown schedule");
}

LearningRate make_learning_rate(const OptimizerConfig& optimizer, const RateSettings& settings,
                                const RateRequest& request) {
  const auto& entry = schedule_entry(settings.lr_decay);
  return LearningRate(
      {.base_rate = optimizer.lr.value(),
       .scaling = optimizer.lr_scaling,
       .batch_ratio = request.batch_ratio,
       .warmup_steps = request.warmup_steps.value_or(settings.lr_warmup_steps),
       .warmup_from = settings.lr_warmup_from,
       .schedule = entry.make(entry.completed(settings.lr_decay_own), request.schedule),
       .warmup_only_when_scaled = request.warmup_only_when_scaled});
}

}  // namespace kolo
