#include "kolo/optim/catalogue.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "optim/catalogue/optimizer_settings.h"
#include "optim/schedules/schedule_entry.h"

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

std::string optimizers::Epsilon::remark() const {
  return fmt::format("epsilon {}, added as in {}", value.value(),
                     form == EpsilonForm::torch ? "PyTorch" : "Keras");
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

namespace schedules {

void refuse(std::string_view schedule, std::string_view option, double value,
            std::string_view accepts) {
  throw InputError(fmt::format("learning rate: {} of the {} schedule is {}, expected {}", option,
                               schedule, value, accepts));
}

void require_not_negative(std::string_view schedule, std::string_view option, double value) {
  if (!std::isfinite(value) || value < 0) refuse(schedule, option, value, "a number of 0 or more");
}

void require_positive(std::string_view schedule, std::string_view option, double value) {
  if (!std::isfinite(value) || value <= 0) refuse(schedule, option, value, "a number above 0");
}

void require_steps(std::string_view schedule, std::string_view option, std::int64_t steps) {
  if (steps >= 1) return;
  throw InputError(fmt::format("learning rate: {} of the {} schedule is {}, expected 1 or more",
                               option, schedule, steps));
}

double cosine_between(double from, double to, double progress) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

double decay_progress(std::int64_t step, std::int64_t warmup, std::int64_t total) {
  if (step >= total) return 1;
  if (step <= warmup) return 0;
  return static_cast<double>(step - warmup) / static_cast<double>(total - warmup);
}

}  // namespace schedules
}  // namespace kolo
