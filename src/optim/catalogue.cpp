#include "kolo/optim/catalogue.h"

#include <algorithm>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

const OptimizerEntry& optimizer_entry(std::string_view name) {
  const auto& entries = built_in_optimizers();
  const auto found = std::ranges::find(entries, name, &OptimizerEntry::name);
  if (found == entries.end()) throw Error(fmt::format("optim: there is no optimizer {}", name));
  return *found;
}

OptimizerConfig completed(OptimizerConfig optimizer) {
  const auto& entry = optimizer_entry(optimizer.name);
  optimizer.own = entry.completed(std::move(optimizer.own));
  if (!optimizer.lr) optimizer.lr = entry.usual_rate;
  return optimizer;
}

void check_optimizer(const OptimizerConfig& optimizer, const RefuseKey& refuse) {
  const auto& entry = optimizer_entry(optimizer.name);
  entry.check(optimizer.own, refuse);
  if (entry.has_own_decay && optimizer.decoupled_decay)
    refuse("decoupled_decay", fmt::format("{} has its own kind of weight decay", optimizer.name));
}

WeightDecay decay_of(const OptimizerConfig& optimizer) {
  return {optimizer.weight_decay,
          optimizer.decoupled_decay || optimizer_entry(optimizer.name).decouples_decay,
          optimizer.decay_excludes_vectors};
}

std::unique_ptr<FlatOptimizer> make_optimizer(const OptimizerConfig& optimizer,
                                              const WeightDecay& decay) {
  return optimizer_entry(optimizer.name).make(completed(optimizer).own, decay);
}

const ScheduleEntry& schedule_entry(std::string_view name) {
  const auto& entries = built_in_schedules();
  const auto found = std::ranges::find(entries, name, &ScheduleEntry::name);
  if (found == entries.end()) throw Error(fmt::format("optim: there is no schedule {}", name));
  return *found;
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
