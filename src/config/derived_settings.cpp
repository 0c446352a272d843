#include "kolo/config/derived_settings.h"

#include <algorithm>

#include <fmt/format.h>

#include "config/settle.h"
#include "kolo/base/checked.h"
#include "kolo/optim/catalogue.h"

namespace kolo {

std::string sample_name(const DataConfig& data) {
  const auto& entry = dataset_entry(data.name);
  return entry.samples(entry.completed(data.own));
}

std::string need_of_gpu(const DataConfig& data) {
  const auto& entry = dataset_entry(data.name);
  return entry.needs_gpu(entry.completed(data.own));
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

int most_replicas_of_rank(const RunConfig& config, int ranks) {
  const int parts = config.training.virtual_ranks;
  return parts > 0 ? divide_up(parts, ranks) : 1;
}

std::string_view replica_name(const RunConfig& config) {
  if (config.training.virtual_ranks > 0) return "virtual rank";
  const bool are_shared = config.parallel.shares_samples() || config.parallel.pipeline > 1;
  return are_shared ? "replica" : "rank";
}

std::int64_t batch_size_of(const TrainingConfig& training, int ranks, std::string_view name) {
  if (!training.global_batch_size) return training.batch_size.value();
  const auto whole = *training.global_batch_size;
  if (whole % ranks == 0) return whole / ranks;
  const auto below = whole / ranks * ranks;
  throw InputError(fmt::format(
      "training.global_batch_size: {} samples can't be shared evenly by {} {}s, but a "
      "batch of {}{} can",
      whole, ranks, name, below > 0 ? fmt::format("{} or ", below) : "", below + ranks));
}

// Any number of ranks may evaluate, whether they share the global batch evenly or not.
std::int64_t validation_batch_size_of(const RunConfig& config, const Dataset& dataset, int ranks) {
  const auto& training = config.training;
  const auto& layout = dataset.layout();
  if (training.validation_batch_size) return *training.validation_batch_size;
  const auto batch = training.batch_size
                         ? *training.batch_size
                         : std::max<std::int64_t>(1, *training.global_batch_size / ranks);
  // A pass of the training is known to fit in memory.
  const auto as_in_training = divide_up(batch, training.accumulation);
  if (layout.classes == 0) return as_in_training;
  // Small images are fast in large batches; of large ones fewer are as fast, and take less memory.
  constexpr std::int64_t most_samples = 1000, most_numbers = std::int64_t{4} << 20;
  const auto fitting = most_numbers / std::max<std::int64_t>(1, layout.input_size());
  return std::min(most_samples, std::max(as_in_training, fitting));
}

double batch_ratio_of(const TrainingConfig& training, int ranks) {
  if (!training.base_batch_size) return ranks;
  const auto whole = checked_multiply<std::int64_t>(batch_size_of(training, ranks), ranks);
  return static_cast<double>(whole) / static_cast<double>(*training.base_batch_size);
}

LearningRate make_learning_rate(const RunConfig& config, int ranks, std::int64_t steps_per_epoch) {
  const auto& training = config.training;
  const auto all_steps = checked_multiply(training.n_epochs, steps_per_epoch);
  RateRequest request{.batch_ratio = batch_ratio_of(training, ranks),
                      .warmup_only_when_scaled = training.lr_warmup_when == WarmupWhen::scaled,
                      .schedule = {std::min(all_steps, training.max_steps.value_or(all_steps)),
                                   steps_per_epoch, training.lr_schedule}};
  if (training.lr_warmup_epochs > 0)
    request.warmup_steps = warmup_steps_of(training.lr_warmup_epochs, steps_per_epoch);
  return make_learning_rate(config.optimizer, training, request);
}

MpiOptions make_mpi_options(const CommunicationConfig& config) {
  MpiOptions options;
  options.shared_memory = config.shared_memory;
  options.devices.channel = config.device_channel;
  return options;
}

}  // namespace kolo
