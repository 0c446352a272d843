#include "config/settle.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kolo/base/checked.h"
#include "kolo/config/derived_settings.h"
#include "kolo/nn/loss.h"
#include "kolo/optim/catalogue.h"
#include "settings/section.h"

namespace kolo {

namespace {

constexpr std::array<std::string_view, 3> batch_keys{"batch_size", "local_batch_size",
                                                     "global_batch_size"};

struct Given {
  std::string_view key;
  ConfigValue* value;
};

void require_one(const std::vector<Given>& given) {
  if (given.size() < 2) return;
  throw InputError(
      fmt::format("{}: training.{} and training.{} both say how large a batch is: give the samples "
                  "per rank (batch_size or local_batch_size) or those of all ranks "
                  "(global_batch_size)",
                  given[1].value->origin, given[0].key, given[1].key));
}

// Values of the least distance: merged ones give way to those written over them.
std::vector<Given> nearest_of(const std::vector<Given>& given) {
  const auto distance = [](const Given& each) { return each.value->distance; };
  std::vector<Given> nearest;
  for (const auto& each : given) {
    if (!nearest.empty() && distance(each) > distance(nearest.front())) continue;
    if (!nearest.empty() && distance(each) < distance(nearest.front())) nearest.clear();
    nearest.push_back(each);
  }
  return nearest;
}

}  // namespace

void settle_batch_sizes(ConfigValue& root) {
  ConfigValue* const training = root.find("training");
  if (training == nullptr) return;
  std::vector<Given> in_file, on_command_line;
  for (const auto key : batch_keys) {
    ConfigValue* const value = training->find(key);
    if (value == nullptr || value->kind == ConfigValue::Kind::nothing) continue;
    (is_from_command_line(*value) ? on_command_line : in_file).push_back({key, value});
  }
  require_one(on_command_line);
  if (on_command_line.empty()) {
    const auto nearest = nearest_of(in_file);
    require_one(nearest);
    if (nearest.empty()) return;
    std::erase_if(in_file, [&](const auto& each) {
      return each.value->distance == nearest.front().value->distance;
    });
  }
  for (const auto& each : in_file) each.value->kind = ConfigValue::Kind::nothing;
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

double batch_ratio_of(const TrainingConfig& training, int ranks) {
  if (!training.base_batch_size) return ranks;
  const auto whole = checked_multiply<std::int64_t>(batch_size_of(training, ranks), ranks);
  return static_cast<double>(whole) / static_cast<double>(*training.base_batch_size);
}

namespace {

void fill_model(ModelConfig& model, const ModelEntry& entry, double weight_decay) {
  model.own = entry.completed(std::move(model.own));
  if (!model.l2) model.l2 = weight_decay > 0 ? 0 : entry.l2;
  put_channels_first(model.input_shape);
}

// Virtual ranks need the same kernels on any number of ranks, which depend on the number of threads
// and on cuDNN's measurements.
void fill_device(DeviceConfig& device, const TrainingConfig& training) {
  if (training.virtual_ranks == 0) return;
  device.deterministic = true;
  if (device.intra_threads == 0) device.intra_threads = 1;
}

void fill_training(TrainingConfig& training) {
  if (training.local_batch_size) training.batch_size = training.local_batch_size;
  training.local_batch_size.reset();
  if (!training.batch_size && !training.global_batch_size) training.batch_size = default_batch_size;
  auto& decay = training.lr_decay_own;
  decay = schedule_entry(training.lr_decay).completed(std::move(decay));
  const auto& loss = loss_entry(training.loss);
  training.loss_own = loss.completed(std::move(training.loss_own));
  if (!loss.has_classes) training.metrics.clear();
}

}  // namespace

void fill_defaults(RunConfig& config, const ModelCatalogue& models) {
  auto& data = config.data;
  data.own = dataset_entry(data.name).completed(std::move(data.own));
  fill_model(config.model, models.find(config.model.name), config.optimizer.weight_decay);
  config.optimizer = completed(std::move(config.optimizer));
  fill_training(config.training);
  fill_device(config.device, config.training);
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

}  // namespace kolo
