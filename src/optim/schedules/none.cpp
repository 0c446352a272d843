#include <cmath>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "optim/schedules/schedule_entry.h"

// The rates that don't decay by themselves.
namespace kolo {

namespace {

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

}  // namespace

std::string_view ConstantRate::name() const {
  return "constant";
}

void ConstantRate::check(std::int64_t /*warmup_steps*/) const {}

double ConstantRate::factor(std::int64_t /*step*/, std::int64_t /*warmup_steps*/) const {
  return 1;
}

std::string_view PiecewiseRate::name() const {
  return "piecewise";
}

void PiecewiseRate::check(std::int64_t /*warmup_steps*/) const {
  schedules::require_steps("piecewise", "steps_per_epoch", steps_per_epoch);
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

namespace schedules {

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

}  // namespace schedules
}  // namespace kolo
