#include "kolo/config/factories.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/random.h"

namespace kolo {

namespace {

// Streams of one seed.
constexpr std::uint32_t weights_stream = 0xFFFFFFFF;  // the trainer uses the ranks' numbers

std::int64_t bytes_of_mebibytes(double mebibytes) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(mebibytes * (1 << 20)));
}

NonFiniteStep non_finite_named(const std::string& name) {
  if (name == "skip") return NonFiniteStep::skip;
  return name == "ignore" ? NonFiniteStep::ignore : NonFiniteStep::stop;
}

// A binary loss takes one output for two classes.
std::int64_t outputs_of(const RunConfig& config, const SampleLayout& layout) {
  const auto& given = config.model.n_classes;
  if (loss_named(config.training.loss) == LossKind::binary_cross_entropy) {
    if (layout.classes > 2) {
      throw InputError(
          fmt::format("training.loss is {}, which tells two classes apart, but the "
                      "data has {}; use cross_entropy",
                      config.training.loss, layout.classes));
    }
    return given.value_or(1);
  }
  if (given && *given < layout.classes) {
    throw InputError(
        fmt::format("model.n_classes is {}, but the data has {} classes", *given, layout.classes));
  }
  return given.value_or(layout.classes);
}

}  // namespace

std::shared_ptr<Network> make_network(const RunConfig& config, const SampleLayout& layout,
                                      const ModelCatalogue& models) {
  const auto& model = config.model;
  if (!model.input_shape.empty() && model.input_shape != layout.input_shape) {
    throw InputError(
        fmt::format("model.input_shape is [{}], but the data has samples of [{}]; leave it out to "
                    "take the data's",
                    fmt::join(model.input_shape, ", "), fmt::join(layout.input_shape, ", ")));
  }
  torch::manual_seed(derive_seed(config.seed, weights_stream, 0));
  return models.make(model.name, {.input_shape = layout.input_shape,
                                  .classes = outputs_of(config, layout),
                                  .dropout = model.dropout,
                                  .batch_norm_momentum = model.batch_norm_momentum,
                                  .file = model.file});
}

Objective make_objective(const RunConfig& config) {
  const auto& training = config.training;
  const LossKind kind = loss_named(training.loss);
  Objective objective{make_loss({kind, training.label_smoothing}), make_loss({kind, 0})};
  const auto& metrics = training.metrics;
  if (std::find(metrics.begin(), metrics.end(), "top_k_categorical_accuracy") != metrics.end())
    objective.top = 5;  // Keras's k
  return objective;
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
  options.mixup_alpha = config.training.mixup_alpha;
  options.maximum_norm = config.training.clip_norm;
  options.patience = config.training.early_stopping_patience;
  options.check_replicas_every = config.training.check_replicas_every;
  options.non_finite = non_finite_named(config.training.non_finite);
  return options;
}

CheckpointSchedule make_checkpoint_schedule(const CheckpointConfig& config) {
  return {config.every_epochs, config.every_steps, config.at_start};
}

}  // namespace kolo
