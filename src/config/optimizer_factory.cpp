#include <algorithm>

#include <fmt/format.h>

#include "config/at_setting.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/config/factories.h"
#include "kolo/optim/adaptive_optimizers.h"
#include "kolo/optim/layerwise_optimizers.h"

// Optimizers and learning rates.
namespace kolo {

namespace {

// What pulls the parameters towards zero, and which.
struct Decay {
  double weight = 0;
  bool is_decoupled = false;
  bool excludes_vectors = false;
};

// A penalty l2 * sum of w^2 has the gradient 2 * l2 * w, which is a weight decay of 2 * l2: the
// same steps, without a pass over the weights for the loss.
Decay decay_of(const RunConfig& config, double l2) {
  const auto& optimizer = config.optimizer;
  if (l2 > 0) return {2 * l2, config.model.l2_mode == L2Mode::decoupled, true};
  return {optimizer.weight_decay, optimizer.decoupled_decay || optimizer.name == "adamw",
          optimizer.decay_excludes_vectors};
}

template <typename Options>
Options with_decay(Options options, const Decay& decay) {
  options.weight_decay = decay.weight;
  options.decoupled_decay = decay.is_decoupled;
  options.decay_excludes_vectors = decay.excludes_vectors;
  return options;
}

std::unique_ptr<FlatOptimizer> make_adam_of(const OptimizerConfig& config, const Decay& decay) {
  AdamOptions options{.beta1 = config.beta1, .beta2 = config.beta2};
  options.epsilon = config.epsilon.value();
  options.epsilon_before_correction = config.epsilon_form == EpsilonForm::keras;
  options.amsgrad = config.amsgrad;
  return make_adam(with_decay(options, decay));
}

std::unique_ptr<FlatOptimizer> make_adaptive(const OptimizerConfig& config, const Decay& decay) {
  const double epsilon = config.epsilon.value();
  if (config.name == "rmsprop") {
    return make_rmsprop(
        with_decay(RmspropOptions{.rho = config.rho.value(),
                                  .momentum = config.momentum,
                                  .epsilon = epsilon,
                                  .centered = config.centered,
                                  .epsilon_in_root = config.epsilon_form == EpsilonForm::keras},
                   decay));
  }
  if (config.name == "adagrad") {
    return make_adagrad(
        with_decay(AdagradOptions{.initial_accumulator = config.initial_accumulator,
                                  .epsilon = epsilon,
                                  .epsilon_in_root = config.epsilon_form == EpsilonForm::keras},
                   decay));
  }
  if (config.name == "adadelta") {
    return make_adadelta(
        with_decay(AdadeltaOptions{.rho = config.rho.value(), .epsilon = epsilon}, decay));
  }
  if (config.name == "adamax") {
    return make_adamax(with_decay(
        AdamaxOptions{.beta1 = config.beta1, .beta2 = config.beta2, .epsilon = epsilon}, decay));
  }
  if (config.name == "nadam") {
    return make_nadam(with_decay(
        NadamOptions{.beta1 = config.beta1, .beta2 = config.beta2, .epsilon = epsilon}, decay));
  }
  throw Error(fmt::format("config: there is no optimizer {}", config.name));
}

Schedule make_schedule(const TrainingConfig& training, std::int64_t steps_per_epoch) {
  const auto all_steps = checked_multiply(training.n_epochs, steps_per_epoch);
  const auto total_steps = std::min(all_steps, training.max_steps.value_or(all_steps));
  switch (training.lr_decay) {
    case RateDecay::cosine:
      return CosineDecay{total_steps, training.lr_final_fraction};
    case RateDecay::cosine_shifted:
      return ShiftedCosineDecay{total_steps, training.lr_final_fraction};
    case RateDecay::polynomial:
      return PolynomialDecay{total_steps, training.lr_decay_power, training.lr_final_fraction};
    case RateDecay::one_cycle:
      return OneCycle{total_steps};
    case RateDecay::none:
      break;
  }
  if (training.lr_schedule.empty()) return ConstantRate{};
  PiecewiseRate piecewise{{}, steps_per_epoch};
  for (const auto& interval : training.lr_schedule) {
    piecewise.intervals.push_back({interval.start_epoch, interval.end_epoch, interval.multiplier});
  }
  return piecewise;
}

}  // namespace

double l2_of(const RunConfig& config, const ModelCatalogue& models) {
  const auto& model = config.model;
  if (!model.l2) {
    if (config.optimizer.weight_decay > 0) return 0;
    return at_setting(config, "model.name", [&] { return models.find(model.name).l2; });
  }
  if (*model.l2 > 0 && config.optimizer.weight_decay > 0) {
    refuse_setting(config, "model.l2",
                   fmt::format("{}, and optimizer.weight_decay is {}: both keep the weights small; "
                               "give one",
                               *model.l2, config.optimizer.weight_decay));
  }
  return *model.l2;
}

std::unique_ptr<FlatOptimizer> make_optimizer(const RunConfig& config,
                                              const ModelCatalogue& models) {
  const auto& optimizer = config.optimizer;
  const Decay decay = decay_of(config, l2_of(config, models));
  const auto& name = optimizer.name;
  if (name == "sgd") {
    return make_sgd(with_decay(SgdOptions{.momentum = optimizer.momentum,
                                          .dampening = optimizer.dampening,
                                          .nesterov = optimizer.nesterov},
                               decay));
  }
  if (name == "adam" || name == "adamw") return make_adam_of(optimizer, decay);
  if (name == "lars") {
    return make_lars({.momentum = optimizer.momentum,
                      .weight_decay = decay.weight,
                      .trust_coefficient = optimizer.trust_coefficient});
  }
  if (name == "lamb") {
    return make_lamb({.beta1 = optimizer.beta1,
                      .beta2 = optimizer.beta2,
                      .epsilon = optimizer.epsilon.value(),
                      .weight_decay = decay.weight});
  }
  return make_adaptive(optimizer, decay);
}

LearningRate make_learning_rate(const RunConfig& config, int ranks, std::int64_t steps_per_epoch) {
  const auto& training = config.training;
  const auto warmup_steps = training.lr_warmup_epochs > 0
                                ? warmup_steps_of(training.lr_warmup_epochs, steps_per_epoch)
                                : training.lr_warmup_steps;
  return LearningRate({.base_rate = config.optimizer.lr.value(),
                       .scaling = config.optimizer.lr_scaling,
                       .batch_ratio = batch_ratio_of(training, ranks),
                       .warmup_steps = warmup_steps,
                       .warmup_from = training.lr_warmup_from,
                       .schedule = make_schedule(training, steps_per_epoch),
                       .warmup_only_when_scaled = training.lr_warmup_when == WarmupWhen::scaled});
}

}  // namespace kolo
