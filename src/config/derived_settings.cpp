#include "kolo/config/derived_settings.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "config/settle.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/optim/catalogue.h"

namespace kolo {

MeshShape mesh_of(const RunConfig& config, int ranks) {
  try {
    return MeshShape(ranks, config.parallel.mesh());
  } catch (const InputError& error) {
    std::string_view reason = error.what();
    constexpr std::string_view section = "parallel: ";  // which its place has already
    if (reason.starts_with(section)) reason.remove_prefix(section.size());
    refuse_setting(config, "parallel", reason);
  }
}

int replicas_of(const RunConfig& config, int ranks) {
  if (const int parts = config.training.virtual_ranks; parts > 0) {
    if (parts >= ranks) return parts;
    refuse_setting(config, "training.virtual_ranks",
                   fmt::format("{} parts of a step are too few for {} ranks; use as many ranks at "
                               "most, or more virtual ranks",
                               parts, ranks));
  }
  return mesh_of(config, ranks).length(MeshAxis::data);
}

std::string_view replica_name(const RunConfig& config, int ranks) {
  if (config.training.virtual_ranks > 0) return "virtual rank";
  return replicas_of(config, ranks) == ranks ? "rank" : "replica";
}

MpiOptions make_mpi_options(const CommunicationConfig& config) {
  MpiOptions options;
  options.shared_memory = config.shared_memory;
  options.devices.channel = config.device_channel;
  return options;
}

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

std::string describe_optimizer(const OptimizerConfig& config) {
  const auto optimizer = completed(config);
  const auto remark = optimizer_entry(optimizer.name).remark(optimizer.own);
  return remark.empty() ? optimizer.name : fmt::format("{} ({})", optimizer.name, remark);
}

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

LearningRate make_learning_rate(const RunConfig& config, int ranks, std::int64_t steps_per_epoch) {
  const auto& training = config.training;
  RateRequest request{.batch_ratio = batch_ratio_of(training, ranks),
                      .warmup_only_when_scaled = training.lr_warmup_when == WarmupWhen::scaled,
                      .schedule = schedule_request(training, steps_per_epoch)};
  if (training.lr_warmup_epochs > 0)
    request.warmup_steps = warmup_steps_of(training.lr_warmup_epochs, steps_per_epoch);
  return make_learning_rate(config.optimizer, training, request);
}

}  // namespace kolo
