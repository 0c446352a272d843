#include "kolo/optim/flat_optimizer.h"

#include <cmath>

#include "optim/typed_optimizer.h"

namespace kolo {

namespace {

// Nadam's momentum, mu(t) = beta1 * (1 - q^t / 2) with q = 0.96^decay, and the product of its
// values up to a step, without walking through them: a rank that joins late knows it too.
class NesterovSchedule {
 public:
  NesterovSchedule(double beta1, double decay) : beta1_(beta1), log_base_(decay * std::log(0.96)) {}

  [[nodiscard]] double momentum(double step) const {
    return beta1_ * (1 - 0.5 * std::exp(step * log_base_));
  }

  // mu(1) * ... * mu(step). The logarithm of 1 - q^i / 2 is minus the sum over k of (q^i / 2)^k /
  // k; summed over i first, each k gives a geometric series, and the terms halve from one k to the
  // next.
  [[nodiscard]] double product(double step) const {
    double logarithm = 0;
    double half = 1;  // 2^-k
    for (int k = 1; k <= 60; ++k) {
      half *= 0.5;
      const double log_ratio = k * log_base_;  // of q^k
      const double series = log_ratio == 0 ? step
                                           : std::exp(log_ratio) * std::expm1(step * log_ratio) /
                                                 std::expm1(log_ratio);
      logarithm -= half / k * series;
    }
    return std::pow(beta1_, step) * std::exp(logarithm);
  }

 private:
  double beta1_, log_base_;
};

}  // namespace

std::unique_ptr<FlatOptimizer> make_rmsprop(const RmspropOptions& options) {
  optim::require_fraction("rmsprop", "rho", options.rho);
  optim::require_not_negative("rmsprop", "momentum", options.momentum);
  optim::require_not_negative("rmsprop", "epsilon", options.epsilon);
  const auto constants = [options](StepRate rate, std::int64_t, const auto& decay) {
    return optim::stored<optim::RmspropConstants>(
        {.decay = decay,
         .rate_of_gradient = options.as_keras ? rate.learning_rate : 1,
         .rate_of_step = options.as_keras ? 1 : rate.learning_rate,
         .rho = options.rho,
         .one_minus_rho = 1 - options.rho,
         .momentum = options.momentum,
         .epsilon_in_root = options.as_keras ? options.epsilon : 0,
         .epsilon_to_root = options.as_keras ? 0 : options.epsilon});
  };
  optim::Elementwise rmsprop{"rmsprop", {"square_avg"}, optim::decay_of(options), constants};
  const bool has_momentum = options.momentum > 0;
  if (has_momentum) rmsprop.states.emplace_back("momentum_buffer");
  if (options.centered) rmsprop.states.emplace_back("grad_avg");
  if (has_momentum && options.centered)
    return optim::elementwise<optim::RmspropStep, true, true>(rmsprop);
  if (has_momentum) return optim::elementwise<optim::RmspropStep, true, false>(rmsprop);
  if (options.centered) return optim::elementwise<optim::RmspropStep, false, true>(rmsprop);
  return optim::elementwise<optim::RmspropStep, false, false>(rmsprop);
}

std::unique_ptr<FlatOptimizer> make_adagrad(const AdagradOptions& options) {
  optim::require_not_negative("adagrad", "initial_accumulator", options.initial_accumulator);
  optim::require_not_negative("adagrad", "epsilon", options.epsilon);
  const auto constants = [options](StepRate rate, std::int64_t, const auto& decay) {
    return optim::stored<optim::AdagradConstants>(
        {.decay = decay,
         .rate = rate.learning_rate,
         .epsilon_in_root = options.epsilon_in_root ? options.epsilon : 0,
         .epsilon_to_root = options.epsilon_in_root ? 0 : options.epsilon});
  };
  return optim::elementwise<optim::AdagradStep>({.name = "adagrad",
                                                 .states = {"sum"},
                                                 .decay = optim::decay_of(options),
                                                 .constants = constants,
                                                 .initial_state = options.initial_accumulator});
}

std::unique_ptr<FlatOptimizer> make_adadelta(const AdadeltaOptions& options) {
  optim::require_fraction("adadelta", "rho", options.rho);
  optim::require_not_negative("adadelta", "epsilon", options.epsilon);
  const auto constants = [options](StepRate rate, std::int64_t, const auto& decay) {
    return optim::stored<optim::AdadeltaConstants>({.decay = decay,
                                                    .rate = rate.learning_rate,
                                                    .rho = options.rho,
                                                    .one_minus_rho = 1 - options.rho,
                                                    .epsilon = options.epsilon});
  };
  return optim::elementwise<optim::AdadeltaStep>(
      {"adadelta", {"square_avg", "acc_delta"}, optim::decay_of(options), constants});
}

std::unique_ptr<FlatOptimizer> make_adamax(const AdamaxOptions& options) {
  optim::require_moments("adamax", options);
  const auto constants = [options](StepRate rate, std::int64_t step, const auto& decay) {
    return optim::stored<optim::AdamaxConstants>(
        {.decay = decay,
         .beta1 = options.beta1,
         .one_minus_beta1 = 1 - options.beta1,
         .beta2 = options.beta2,
         .epsilon = options.epsilon,
         .step_size = rate.learning_rate / optim::bias_correction(options.beta1, step)});
  };
  return optim::elementwise<optim::AdamaxStep>(
      {"adamax", {"exp_avg", "exp_inf"}, optim::decay_of(options), constants});
}

std::unique_ptr<FlatOptimizer> make_nadam(const NadamOptions& options) {
  optim::require_moments("nadam", options);
  optim::require_not_negative("nadam", "momentum_decay", options.momentum_decay);
  const auto constants = [options](StepRate rate, std::int64_t step, const auto& decay) {
    const auto steps = static_cast<double>(step);
    const NesterovSchedule schedule(options.beta1, options.momentum_decay);
    const double product = schedule.product(steps);
    const double next = schedule.momentum(steps + 1);
    return optim::stored<optim::NadamConstants>(
        {.decay = decay,
         .moments = optim::moments_of(options),
         .rate = rate.learning_rate,
         .mean_weight = next / (1 - product * next),
         .gradient_weight = (1 - schedule.momentum(steps)) / (1 - product),
         .root_scale = 1 / std::sqrt(optim::bias_correction(options.beta2, step))});
  };
  return optim::elementwise<optim::NadamStep>(
      {"nadam", {"exp_avg", "exp_avg_sq"}, optim::decay_of(options), constants});
}

namespace {

// Constants that both Schedule-Free optimizers have; AdamW adds its second moment. `momentum` mixes
// z and x into the parameters.
optim::ScheduleFreeConstants<double> schedule_free_constants(
    StepRate rate, double momentum, const optim::DecayConstants<double>& decay) {
  return {.rate = rate.learning_rate,
          .decay = decay.in_gradient,
          .direct_rate = (1 - momentum) * rate.learning_rate,
          .average_weight = momentum * rate.weight,
          .kept = 1 - rate.weight};
}

}  // namespace

std::unique_ptr<FlatOptimizer> make_schedule_free_sgd(const ScheduleFreeSgdOptions& options) {
  optim::require_fraction("schedule_free_sgd", "momentum", options.momentum);
  const auto constants = [options](StepRate rate, std::int64_t, const auto& decay) {
    return optim::stored<optim::ScheduleFreeConstants>(
        schedule_free_constants(rate, options.momentum, decay));
  };
  return optim::elementwise<optim::ScheduleFreeSgdStep>(
      {.name = "schedule_free_sgd",
       .states = {"z_minus_x"},
       .decay = {options.weight_decay, false, options.decay_excludes_vectors},
       .constants = constants,
       .for_use = ParametersForUse{0, 1 - options.momentum}});
}

std::unique_ptr<FlatOptimizer> make_schedule_free_adamw(const ScheduleFreeAdamwOptions& options) {
  optim::require_moments("schedule_free_adamw", options);
  const auto constants = [options](StepRate rate, std::int64_t step, const auto& decay) {
    auto all = schedule_free_constants(rate, options.beta1, decay);
    all.beta2 = options.beta2;
    all.one_minus_beta2 = 1 - options.beta2;
    all.epsilon = options.epsilon;
    all.root_scale = 1 / std::sqrt(optim::bias_correction(options.beta2, step));
    return optim::stored<optim::ScheduleFreeConstants>(all);
  };
  return optim::elementwise<optim::ScheduleFreeAdamwStep>(
      {.name = "schedule_free_adamw",
       .states = {"z_minus_x", "exp_avg_sq"},
       .decay = {options.weight_decay, false, options.decay_excludes_vectors},
       .constants = constants,
       .for_use = ParametersForUse{0, 1 - options.beta1}});
}

}  // namespace kolo
