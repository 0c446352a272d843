#include "config/defaults.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "kolo/data/mnist.h"
#include "kolo/nn/loss.h"

namespace kolo {

namespace {

bool is_channel_count(int64_t length) {
  return length == 1 || length == 3 || length == 4;
}

// [32, 32, 3], as Keras writes it, is [3, 32, 32] here. Three lengths are taken for channels last
// when the last can be a number of channels and the first can't.
void put_channels_first(std::vector<int64_t>& shape) {
  if (shape.size() == 3 && is_channel_count(shape[2]) && !is_channel_count(shape[0]))
    std::rotate(shape.begin(), shape.begin() + 2, shape.end());
}

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

void fill(std::optional<double>& value, double usual) {
  if (!value) value = usual;
}

}  // namespace

void fill_augmentation(DataConfig& data) {
  const bool is_cifar10 = data.name == "cifar10";
  if (!is_cifar10 && data.name != "imagenet") return;
  fill(data.height_shift, is_cifar10 ? .1 : .33);
  fill(data.width_shift, is_cifar10 ? .1 : .33);
  fill(data.zoom, is_cifar10 ? 0 : .5);
  if (!data.horizontal_flip) data.horizontal_flip = true;
}

void fill_defaults(RunConfig& config) {
  auto& data = config.data;
  fill_augmentation(data);
  if (data.path.empty() && data.name == "fashion_mnist") data.path = fashion_mnist_folder;
  if (data.path.empty() && data.name == "cifar10") data.path = "data/cifar10";
  put_channels_first(data.input_shape);
  put_channels_first(config.model.input_shape);
  fill_optimizer(config.optimizer);
  fill_training(config.training);
}

}  // namespace kolo
