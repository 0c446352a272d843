#include "kolo/config/derived_settings.h"

#include <algorithm>
#include <cmath>

#include "kolo/base/checked.h"

namespace kolo {

namespace {

ScheduleRequest schedule_request(const TrainingConfig& training, std::int64_t steps_per_epoch) {
  const auto all_steps = checked_multiply(training.n_epochs, steps_per_epoch);
  ScheduleRequest request{std::min(all_steps, training.max_steps.value_or(all_steps)),
                          steps_per_epoch};
  for (const auto& interval : training.lr_schedule)
    request.intervals.push_back({interval.start_epoch, interval.end_epoch, interval.multiplier});
  return request;
}

}  // namespace

std::int64_t base_steps_of(const RunConfig& config, int ranks, std::int64_t steps_per_epoch) {
  const double ratio = batch_ratio_of(config.training, ranks);
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(steps_per_epoch) * ratio));
}

std::int64_t most_epochs(const RunConfig& config, int ranks) {
  const auto epochs = config.training.n_epochs;
  if (config.optimizer.lr_scaling != Scaling::adascale) return epochs;
  const double ratio = std::max(batch_ratio_of(config.training, ranks), 1.);
  return checked_multiply(epochs, static_cast<std::int64_t>(std::ceil(ratio)));
}

LearningRate make_learning_rate(const RunConfig& config, int ranks, std::int64_t steps_per_epoch) {
  const auto& training = config.training;
  if (config.optimizer.lr_scaling == Scaling::adascale)
    steps_per_epoch = base_steps_of(config, ranks, steps_per_epoch);
  RateRequest request{.batch_ratio = batch_ratio_of(training, ranks),
                      .warmup_only_when_scaled = training.lr_warmup_when == WarmupWhen::scaled,
                      .schedule = schedule_request(training, steps_per_epoch)};
  if (training.lr_warmup_epochs > 0)
    request.warmup_steps = warmup_steps_of(training.lr_warmup_epochs, steps_per_epoch);
  return make_learning_rate(config.optimizer, training, request);
}

}  // namespace kolo
