#include <algorithm>

#include <fmt/format.h>

#include "config/at_setting.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/config/factories.h"
#include "kolo/optim/catalogue.h"

// Optimizers and learning rates.
namespace kolo {

namespace {

// A penalty l2 * sum of w^2 has the gradient 2 * l2 * w, which is a weight decay of 2 * l2: the
// same steps, without a pass over the weights for the loss.
WeightDecay decay_of(const RunConfig& config, double l2) {
  const auto& optimizer = config.optimizer;
  if (l2 > 0) return {2 * l2, config.model.l2_mode == L2Mode::decoupled, true};
  return {optimizer.weight_decay,
          optimizer.decoupled_decay || optimizer_entry(optimizer.name).decouples_decay,
          optimizer.decay_excludes_vectors};
}

OptimizerConfig completed(OptimizerConfig optimizer) {
  const auto& entry = optimizer_entry(optimizer.name);
  if (!optimizer.own.has_value()) optimizer.own = entry.defaults;
  entry.complete(optimizer.own);
  return optimizer;
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
  const auto optimizer = completed(config.optimizer);
  return optimizer_entry(optimizer.name)
      .make(optimizer.own, decay_of(config, l2_of(config, models)));
}

std::string describe_optimizer(const OptimizerConfig& config) {
  const auto optimizer = completed(config);
  const auto remark = optimizer_entry(optimizer.name).remark(optimizer.own);
  return remark.empty() ? optimizer.name : fmt::format("{} ({})", optimizer.name, remark);
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
