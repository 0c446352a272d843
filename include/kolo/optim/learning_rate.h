#pragma once

#include <cstdint>
#include <string>

#include "kolo/base/enum_names.h"
#include "kolo/optim/schedule.h"

// The learning rate as a pure function of the step: every rank computes the same number, and a
// resumed run needs no state.
namespace kolo {

// How the rate grows with the global batch: by the ratio of that to the batch which the rate is
// meant for. Where each rank has such a batch, the ratio is the number of ranks.
enum class Scaling {
  none,    // the rate is as given
  linear,  // times the ratio (Goyal et al., 2017)
  sqrt     // times its square root: keeps the variance of a step (Krizhevsky, 2014)
};

constexpr auto enum_names(Scaling) {
  return std::to_array<EnumName<Scaling>>(
      {{Scaling::none, "none"}, {Scaling::linear, "linear"}, {Scaling::sqrt, "sqrt"}});
}

// The scaling of that name: "none", "linear" or "sqrt"; InputError for any other.
[[nodiscard]] Scaling scaling_named(const std::string& name);

// 1, ratio or sqrt(ratio); the ratio is above 0, else Error.
[[nodiscard]] double scale_factor(Scaling scaling, double ratio);

struct LearningRatePlan {
  double base_rate = 0;  // for one rank, or the base batch; 0 or more
  Scaling scaling = Scaling::none;
  double batch_ratio = 1;  // the ranks that share a step, or the global batch over the base batch
  std::int64_t warmup_steps = 0;  // 0: scaled from the start
  double warmup_from = 1;  // what the warm-up sets out from, as a fraction of base_rate; 0 to 1
  Schedule schedule = ConstantRate{};
  bool warmup_only_when_scaled = false;  // no warm-up unless scaling makes the rate higher
};

// The rate of every step: first the warm-up, then what the schedule makes of the scaled rate,
// base_rate * scale_factor().
//
// The warm-up is linear and ends with the scaled rate in its last step: of W warm-up steps, the one
// that follows s completed ones has the rate
//
//   begin + (scaled - begin) * (s + 1) / W      with begin = warmup_from * base_rate
//
// This is "gradual warmup" (Goyal et al., "Accurate, large minibatch SGD", 2017) as Horovod's
// LearningRateWarmupCallback has it; there begin is base_rate, so that warm-up without scaling does
// nothing. With warmup_from = 0 it rises from zero, with or without scaling.
//
// No momentum correction is needed when the rate changes: SGD's momentum doesn't contain the rate.
class LearningRate {
 public:
  // Throws InputError, naming the option, for values out of the range that is given beside them,
  // for intervals that overlap or are out of order, and for OneCycle with a warm-up.
  explicit LearningRate(LearningRatePlan plan);

  // The rate of the step that follows `step` completed ones (0 or more, else Error). After a
  // schedule's last step it stays as it is at its end.
  [[nodiscard]] double at(std::int64_t step) const;

  [[nodiscard]] std::int64_t warmup_steps() const { return plan_.warmup_steps; }
  // What the schedule multiplies: base_rate * scale_factor().
  [[nodiscard]] double scaled_rate() const { return scaled_rate_; }
  [[nodiscard]] const Schedule& schedule() const { return plan_.schedule; }

 private:
  LearningRatePlan plan_;
  double scaled_rate_;
};

// The steps of a warm-up given in epochs, which may be a fraction: epochs * steps_per_epoch,
// rounded to the nearest step, halves up. InputError when epochs is negative, not finite or too
// large to count; steps_per_epoch >= 0, else Error.
[[nodiscard]] std::int64_t warmup_steps_of(double epochs, std::int64_t steps_per_epoch);

}  // namespace kolo
