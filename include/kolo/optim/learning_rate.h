#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "kolo/base/enum_names.h"

// The learning rate as a pure function of the step: every rank computes the same number, and a
// resumed run needs no state.
namespace kolo {

// The schedules, by which it changes in the course of a training. Each has its name in messages;
// check(), which throws InputError for values out of range, and for a warm-up where it takes none;
// and, once it was checked, the factor on the scaled rate (see LearningRate) in the step that
// follows `step` completed ones, for steps after the warm-up.

struct ConstantRate {
  [[nodiscard]] static constexpr std::string_view name() { return "constant"; }
  void check(std::int64_t /*warmup_steps*/) const {}
  [[nodiscard]] double factor(std::int64_t /*step*/, std::int64_t /*warmup_steps*/) const {
    return 1;
  }
};

// From start_epoch (the first epoch is 0) up to, not including, end_epoch. Epochs may be fractions,
// and count to the nearest step.
struct RateInterval {
  double start_epoch = 0;
  std::optional<double> end_epoch = std::nullopt;  // none: up to the next interval, or for good
  double multiplier = 1;                           // 0 or more
};

// Steps at given epochs, as the LearningRateScheduleCallbacks of Horovod's examples make them. The
// factor is 1 before the first interval; between two intervals and after the last it stays what it
// was. Intervals come in order and don't overlap.
struct PiecewiseRate {
  std::vector<RateInterval> intervals;
  std::int64_t steps_per_epoch = 0;  // 1 or more

  [[nodiscard]] static constexpr std::string_view name() { return "piecewise"; }
  void check(std::int64_t warmup_steps) const;
  [[nodiscard]] double factor(std::int64_t step, std::int64_t warmup_steps) const;
};

// Half a period of a cosine (Loshchilov and Hutter, "SGDR", 2017, without restarts): from 1 at the
// end of the warm-up, or at the start when there is none, to final_fraction after total_steps
// steps, warm-up included.
//
// Shifted, it is as long as all total_steps, but begins after the warm-up, so it isn't at its end
// when the training is: the schedule of NERSC's tutorial for the cosmology U-Net. The step that
// follows s completed ones has the progress (s + 1 - warmup_steps) / total_steps, at most 1.
struct CosineDecay {
  std::int64_t total_steps = 0;  // 1 or more
  double final_fraction = 0;     // 0 or more
  bool is_shifted = false;

  [[nodiscard]] constexpr std::string_view name() const {
    return is_shifted ? "cosine_shifted" : "cosine";
  }
  void check(std::int64_t warmup_steps) const;
  [[nodiscard]] double factor(std::int64_t step, std::int64_t warmup_steps) const;
};

// Over the steps of CosineDecay, final_fraction + (1 - final_fraction) * (1 - progress)^power;
// power 1 is a straight line.
struct PolynomialDecay {
  std::int64_t total_steps = 0;  // 1 or more
  double power = 1;              // above 0
  double final_fraction = 0;     // 0 or more

  [[nodiscard]] static constexpr std::string_view name() { return "polynomial"; }
  void check(std::int64_t warmup_steps) const;
  [[nodiscard]] double factor(std::int64_t step, std::int64_t warmup_steps) const;
};

// One cycle (Smith and Topin, "Super-convergence", 2018): up from 1 / initial_divisor to 1 in the
// first part of the steps and down to 1 / (initial_divisor * final_divisor) in the last step, both
// on a cosine. The arithmetic and the defaults are those of PyTorch's OneCycleLR, with the scaled
// rate as max_lr; the momentum isn't cycled. It is its own warm-up, and takes no other.
struct OneCycle {
  std::int64_t total_steps = 0;  // 1 or more
  double rising_fraction = 0.3;  // of the steps; PyTorch's pct_start; 0 to 1
  double initial_divisor = 25;   // PyTorch's div_factor; above 0
  double final_divisor = 1e4;    // PyTorch's final_div_factor; above 0

  [[nodiscard]] static constexpr std::string_view name() { return "one_cycle"; }
  void check(std::int64_t warmup_steps) const;
  [[nodiscard]] double factor(std::int64_t step, std::int64_t warmup_steps) const;
};

using Schedule = std::variant<ConstantRate, PiecewiseRate, CosineDecay, PolynomialDecay, OneCycle>;

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

// 1 (none), ratio or sqrt(ratio); the ratio is above 0, else Error.
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
  // The same with a warm-up over so many steps.
  [[nodiscard]] LearningRate with_warmup(std::int64_t steps) const;
  // Rate that the schedule multiplies: base_rate * scale_factor().
  [[nodiscard]] double scaled_rate() const { return scaled_rate_; }
  [[nodiscard]] std::string_view schedule_name() const;  // "constant", "piecewise", "cosine", ...

 private:
  LearningRatePlan plan_;
  double scaled_rate_;
};

// The steps of a warm-up given in epochs, which may be a fraction: epochs * steps_per_epoch,
// rounded to the nearest step, halves up. InputError when epochs is negative, not finite or too
// large to count; steps_per_epoch >= 0, else Error.
[[nodiscard]] std::int64_t warmup_steps_of(double epochs, std::int64_t steps_per_epoch);

}  // namespace kolo
