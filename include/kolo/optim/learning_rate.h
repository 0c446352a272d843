#pragma once

#include <cstdint>
#include <string>

// The learning rate as a pure function of the step: every rank computes the same number, and a
// resumed run needs no state.
namespace kolo {

// How the rate grows with the number of ranks, which share a global batch that grows with them.
enum class Scaling {
  none,    // the rate is as given
  linear,  // times ranks (Goyal et al., 2017)
  sqrt     // times the square root of ranks: keeps the variance of a step (Krizhevsky, 2014)
};

// The scaling of that name: "none", "linear" or "sqrt"; InputError for any other.
[[nodiscard]] Scaling scaling_named(const std::string& name);

// 1, ranks or sqrt(ranks); ranks >= 1, else Error.
[[nodiscard]] double scale_factor(Scaling scaling, int ranks);

struct LearningRatePlan {
  double base_rate = 0;  // for one rank; 0 or more
  Scaling scaling = Scaling::none;
  int ranks = 1;                  // the ranks that share a step
  std::int64_t warmup_steps = 0;  // 0: scaled from the start
};

class LearningRate {
 public:
  // Throws InputError for a rate or warm-up that is negative or not finite.
  explicit LearningRate(const LearningRatePlan& plan);

  // The rate of the step that follows `step` completed ones (0 or more, else Error). In the warm-up
  // it grows linearly with each step, from the unscaled rate at step 0 to the scaled rate at step
  // warmup_steps ("gradual warmup", Goyal et al., "Accurate, large minibatch SGD", 2017), and is
  // constant afterwards. As it begins at the unscaled rate, warm-up without scaling does nothing.
  [[nodiscard]] double at(std::int64_t step) const;

  [[nodiscard]] std::int64_t warmup_steps() const { return warmup_steps_; }

 private:
  double base_rate_;
  double scaled_rate_;
  std::int64_t warmup_steps_;
};

// The steps of a warm-up given in epochs, which may be a fraction: epochs * steps_per_epoch,
// rounded to the nearest step, halves up. InputError when epochs is negative, not finite or too
// large to count; steps_per_epoch >= 0, else Error.
[[nodiscard]] std::int64_t warmup_steps_of(double epochs, std::int64_t steps_per_epoch);

}  // namespace kolo
