#include "config/defaults.h"

#include "kolo/nn/loss.h"

namespace kolo {

namespace {

void fill_optimizer(OptimizerConfig& optimizer) {
  const auto& entry = optimizer_entry(optimizer.name);
  if (!optimizer.lr) optimizer.lr = entry.usual_rate;
  if (!optimizer.own.has_value()) optimizer.own = entry.defaults;
  entry.complete(optimizer.own);
}

void fill_training(TrainingConfig& training) {
  if (training.local_batch_size) training.batch_size = training.local_batch_size;
  training.local_batch_size.reset();
  if (!training.batch_size && !training.global_batch_size) training.batch_size = 64;
  if (!is_of_classes(training.loss)) training.metrics.clear();
}

}  // namespace

void fill_defaults(RunConfig& config) {
  auto& data = config.data;
  const auto& entry = dataset_entry(data.name);
  if (!data.own.has_value()) data.own = entry.defaults;
  entry.complete(data.own);
  put_channels_first(config.model.input_shape);
  fill_optimizer(config.optimizer);
  fill_training(config.training);
}

}  // namespace kolo
