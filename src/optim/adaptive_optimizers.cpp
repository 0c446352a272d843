#include "kolo/optim/flat_optimizer.h"

#include <cmath>
#include <cstddef>

#include "optim/typed_optimizer.h"

namespace kolo {

namespace {

// Adam's family in common: rates of the moments, and epsilon.
template <typename Options>
void require_moments(std::string_view name, const Options& options) {
  optim::require_fraction(name, "beta1", options.beta1);
  optim::require_fraction(name, "beta2", options.beta2);
  optim::require_not_negative(name, "epsilon", options.epsilon);
}

}  // namespace

std::unique_ptr<FlatOptimizer> make_rmsprop(const RmspropOptions& options) {
  optim::require_fraction("rmsprop", "rho", options.rho);
  optim::require_not_negative("rmsprop", "momentum", options.momentum);
  optim::require_not_negative("rmsprop", "epsilon", options.epsilon);
  const auto constants = [options](StepRate rate, std::int64_t, const auto& decay) {
    return optim::stored<optim::RmspropConstants>(
        {.decay = decay,
         .rate = rate.learning_rate,
         .rho = options.rho,
         .one_minus_rho = 1 - options.rho,
         .momentum = options.momentum,
         .epsilon_in_root = options.epsilon_in_root ? options.epsilon : 0,
         .epsilon_to_root = options.epsilon_in_root ? 0 : options.epsilon});
  };
  optim::Elementwise rmsprop{"rmsprop", {"square_avg"}, optim::decay_of(options), constants};
  const bool has_momentum = options.momentum > 0;
  if (has_momentum) rmsprop.states.emplace_back("momentum_buffer");
  if (has_momentum) return optim::elementwise<optim::RmspropKind<true>::Step>(rmsprop);
  return optim::elementwise<optim::RmspropKind<false>::Step>(rmsprop);
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

namespace {

// But for what AdamW has besides. The momentum is what makes the parameters a mixture of z and x.
optim::ScheduleFreeConstants<double> schedule_free_constants(
    StepRate rate, double momentum, const optim::DecayConstants<double>& decay) {
  return {.rate = rate.learning_rate,
          .decay = decay.in_gradient,
          .direct_rate = (1 - momentum) * rate.learning_rate,
          .average_weight = momentum * rate.share,
          .kept = 1 - rate.share};
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
  require_moments("schedule_free_adamw", options);
  const auto constants = [options](StepRate rate, std::int64_t step, const auto& decay) {
    auto all = schedule_free_constants(rate, options.beta1, decay);
    all.beta2 = options.beta2;
    all.one_minus_beta2 = 1 - options.beta2;
    all.epsilon = options.epsilon;
    all.root_scale = 1 / std::sqrt(1 - std::pow(options.beta2, static_cast<double>(step)));
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
