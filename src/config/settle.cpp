#include "config/settle.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

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

}  // namespace kolo
