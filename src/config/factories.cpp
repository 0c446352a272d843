#include "kolo/config/factories.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/random.h"
#include "kolo/data/mnist.h"
#include "kolo/data/random_dataset.h"

namespace kolo {

namespace {

// Streams of one seed.
constexpr std::uint32_t weights_stream = 0xFFFFFFFF;  // the trainer uses the ranks' numbers

std::shared_ptr<const Dataset> first_of(std::shared_ptr<const Dataset> dataset,
                                        std::optional<std::int64_t> count, const char* key) {
  if (!count || *count == dataset->size()) return dataset;
  if (*count > dataset->size()) {
    throw InputError(fmt::format("data.{}: {} samples asked for, but the data set has {}", key,
                                 *count, dataset->size()));
  }
  return std::make_shared<Subset>(std::move(dataset), *count);
}

Datasets random_datasets(const RunConfig& config) {
  const SampleLayout layout{config.data.input_shape, config.data.n_classes, {}};
  const auto training = config.data.n_train.value();
  const auto validation = config.data.n_valid.value_or(std::max<std::int64_t>(1, training / 8));
  return {std::make_shared<RandomDataset>(layout, training, config.seed),
          std::make_shared<RandomDataset>(layout, validation, config.seed + 1)};
}

Datasets mnist_datasets(const RunConfig& config) {
  const std::filesystem::path folder = config.data.path;
  return {first_of(std::make_shared<MnistDataset>(folder, Split::train), config.data.n_train,
                   "n_train"),
          first_of(std::make_shared<MnistDataset>(folder, Split::validation), config.data.n_valid,
                   "n_valid")};
}

std::int64_t bytes_of_mebibytes(double mebibytes) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(mebibytes * (1 << 20)));
}

}  // namespace

Datasets make_datasets(const RunConfig& config) {
  return config.data.name == "dummy" ? random_datasets(config) : mnist_datasets(config);
}

std::shared_ptr<Network> make_network(const RunConfig& config, const SampleLayout& layout,
                                      const ModelCatalogue& models) {
  const auto& model = config.model;
  if (!model.input_shape.empty() && model.input_shape != layout.input_shape) {
    throw InputError(
        fmt::format("model.input_shape is [{}], but the data has samples of [{}]; leave it out to "
                    "take the data's",
                    fmt::join(model.input_shape, ", "), fmt::join(layout.input_shape, ", ")));
  }
  const auto classes = model.n_classes.value_or(layout.classes);
  if (classes < layout.classes) {
    throw InputError(
        fmt::format("model.n_classes is {}, but the data has {} classes", classes, layout.classes));
  }
  torch::manual_seed(derive_seed(config.seed, weights_stream, 0));
  return models.make(model.name, {layout.input_shape, classes, model.dropout});
}

LossFunction make_loss(const RunConfig& config) {
  return make_loss(loss_named(config.training.loss));
}

std::unique_ptr<FlatOptimizer> make_optimizer(const OptimizerConfig& config) {
  if (config.name == "sgd") {
    return make_sgd({config.momentum, config.dampening, config.weight_decay, config.nesterov});
  }
  return make_adam(
      {config.beta1, config.beta2, config.epsilon, config.weight_decay, config.name == "adamw"});
}

LearningRate make_learning_rate(const RunConfig& config, int ranks, std::int64_t steps_per_epoch) {
  const auto& training = config.training;
  const auto warmup_steps = training.lr_warmup_epochs > 0
                                ? warmup_steps_of(training.lr_warmup_epochs, steps_per_epoch)
                                : training.lr_warmup_steps;
  return LearningRate(
      {config.optimizer.lr, scaling_named(config.optimizer.lr_scaling), ranks, warmup_steps});
}

std::unique_ptr<Loader> make_training_loader(const RunConfig& config,
                                             std::shared_ptr<const Dataset> dataset, int rank,
                                             int ranks) {
  const auto size = dataset->size();
  const auto& training = config.training;
  const auto needed =
      training.drop_last ? checked_multiply<std::int64_t>(ranks, training.batch_size) : ranks;
  if (size < needed) {
    throw InputError(fmt::format(
        "data: {} training samples are too few for {} ranks{}; use fewer ranks or more samples",
        size, ranks,
        training.drop_last
            ? fmt::format(" with whole batches of {} (training.drop_last)", training.batch_size)
            : ""));
  }
  DistributedSampler sampler(
      size, rank, ranks,
      {config.data.shuffle, config.seed, training.drop_last ? Padding::drop : Padding::repeat});
  return std::make_unique<Loader>(std::move(dataset), std::move(sampler),
                                  LoaderOptions{training.batch_size, config.data.workers,
                                                config.data.prefetch, training.drop_last});
}

std::unique_ptr<Loader> make_validation_loader(const RunConfig& config,
                                               std::shared_ptr<const Dataset> dataset, int rank,
                                               int ranks) {
  DistributedSampler sampler(dataset->size(), rank, ranks, {false, 0, Padding::none});
  return std::make_unique<Loader>(std::move(dataset), std::move(sampler),
                                  LoaderOptions{config.training.validation_batch_size,
                                                config.data.workers, config.data.prefetch, false});
}

MpiOptions make_mpi_options(const CommunicationConfig& config) {
  MpiOptions options;
  if (config.shared_memory == "on") options.shared_memory = SharedMemory::on;
  if (config.shared_memory == "off") options.shared_memory = SharedMemory::off;
  return options;
}

TrainerOptions make_trainer_options(const RunConfig& config) {
  TrainerOptions options;
  options.epochs = config.training.n_epochs;
  options.seed = config.seed;
  options.buckets = {bytes_of_mebibytes(config.communication.first_bucket_mb),
                     bytes_of_mebibytes(config.communication.bucket_mb)};
  options.reducer.overlap = config.communication.overlap;
  return options;
}

CheckpointSchedule make_checkpoint_schedule(const CheckpointConfig& config) {
  return {config.every_epochs, config.every_steps, config.at_start};
}

}  // namespace kolo
