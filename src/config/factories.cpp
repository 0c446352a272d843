#include "kolo/config/factories.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/at_setting.h"
#include "kolo/base/checked.h"
#include "kolo/base/memory_size.h"
#include "kolo/base/random.h"
#include "kolo/observe/format.h"

namespace kolo {

namespace {

// Streams of one seed.
constexpr std::uint32_t weights_stream = 0xFFFFFFFF;  // the trainer uses the ranks' numbers

std::int64_t bytes_of_mebibytes(double mebibytes) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(mebibytes * (1 << 20)));
}

// A binary loss takes one output for two classes.
std::int64_t outputs_of(const RunConfig& config, const SampleLayout& layout) {
  const auto& given = config.model.n_classes;
  if (layout.classes == 0) return 0;
  if (config.training.loss == LossKind::binary_cross_entropy) {
    if (layout.classes > 2) {
      refuse_setting(config, "training.loss",
                     fmt::format("{} tells two classes apart, but the data has {}; use "
                                 "cross_entropy",
                                 name_of(config.training.loss), layout.classes));
    }
    return given.value_or(1);
  }
  if (given && *given < layout.classes) {
    refuse_setting(config, "model.n_classes",
                   fmt::format("{}, but the data has {} classes; leave it out to take the data's",
                               *given, layout.classes));
  }
  return given.value_or(layout.classes);
}

void require_loss_of(const RunConfig& config, const SampleLayout& layout) {
  const auto loss = config.training.loss;
  const bool has_classes = layout.classes > 0;
  if (is_of_classes(loss) == has_classes) return;
  refuse_setting(config, "training.loss",
                 fmt::format("{}, but the targets of the data {} are {}; use {}", name_of(loss),
                             config.data.name, has_classes ? "classes" : "numbers",
                             has_classes ? "cross_entropy or binary_crossentropy" : "l1"));
}

std::optional<std::int64_t> levels_of(const ModelConfig& model) {
  if (model.full_scale) return *model.full_scale ? 6 : 5;
  return model.levels;
}

// Any number of ranks may evaluate, whether they share the global batch evenly or not.
std::int64_t validation_batch_size_of(const TrainingConfig& training, const SampleLayout& layout,
                                      int ranks) {
  if (training.validation_batch_size) return *training.validation_batch_size;
  const auto as_in_training = training.batch_size
                                  ? *training.batch_size
                                  : std::max<std::int64_t>(1, *training.global_batch_size / ranks);
  if (layout.classes == 0) return as_in_training;
  // Small images are fast in large batches; of large ones fewer are as fast, and take less memory.
  constexpr std::int64_t most_samples = 1000, most_numbers = std::int64_t{4} << 20;
  const auto fitting = most_numbers / std::max<std::int64_t>(1, layout.input_size());
  return std::min(most_samples, std::max(as_in_training, fitting));
}

// A batch that the machine can't hold is refused before anything is started. `key` sets its size.
void require_memory_for(const RunConfig& config, std::string_view key, std::int64_t samples,
                        const SampleLayout& layout) {
  const auto of_sample = static_cast<double>(layout.input_size()) * sizeof(float) +
                         static_cast<double>(layout.target_size()) *
                             (layout.classes > 0 ? sizeof(std::int64_t) : sizeof(float));
  const auto bytes = static_cast<double>(samples) * of_sample;
  const auto memory = installed_memory();
  if (!memory || bytes <= static_cast<double>(*memory)) return;
  refuse_setting(config, key,
                 fmt::format("a batch of {} samples takes {}, but the machine has {} of memory; "
                             "make it smaller",
                             format_count(samples), format_bytes(static_cast<std::uint64_t>(bytes)),
                             format_bytes(static_cast<std::uint64_t>(*memory))));
}

}  // namespace

std::shared_ptr<Network> make_network(const RunConfig& config, const SampleLayout& layout,
                                      const ModelCatalogue& models) {
  const auto& model = config.model;
  if (!model.input_shape.empty() && model.input_shape != layout.input_shape) {
    refuse_setting(
        config, "model.input_shape",
        fmt::format("[{}], but the data has samples of [{}]; leave it out to take the "
                    "data's",
                    fmt::join(model.input_shape, ", "), fmt::join(layout.input_shape, ", ")));
  }
  require_loss_of(config, layout);
  torch::manual_seed(derive_seed(config.seed, weights_stream, 0));
  const auto classes = outputs_of(config, layout);
  return at_setting(config, "model.name", [&] {
    return models.make(model.name, {.input_shape = layout.input_shape,
                                    .classes = classes,
                                    .output_shape = layout.target_shape,
                                    .dropout = model.dropout,
                                    .batch_norm_momentum = model.batch_norm_momentum,
                                    .levels = levels_of(model),
                                    .channels = model.channels,
                                    .file = model.file});
  });
}

Objective make_objective(const RunConfig& config) {
  const auto& training = config.training;
  const LossKind kind = training.loss;
  Objective objective{make_loss({kind, training.label_smoothing, training.lambda_rho}),
                      make_loss({kind, 0, training.lambda_rho})};
  objective.precision = training.precision;
  objective.counts_correct = is_of_classes(kind);
  const auto& metrics = training.metrics;
  if (std::ranges::find(metrics, Metric::top_k_categorical_accuracy) != metrics.end())
    objective.top = 5;  // Keras's k
  return objective;
}

std::unique_ptr<Loader> make_training_loader(const RunConfig& config,
                                             std::shared_ptr<const Dataset> dataset, int rank,
                                             int ranks) {
  const auto size = dataset->size();
  const auto& training = config.training;
  const auto batch_size = batch_size_of(training, ranks);
  const auto needed =
      training.drop_last ? checked_multiply<std::int64_t>(ranks, batch_size) : ranks;
  if (size < needed) {
    throw InputError(fmt::format(
        "data: {} training samples are too few for {} ranks{}; use fewer ranks or more samples",
        size, ranks,
        training.drop_last
            ? fmt::format(" with whole batches of {} (training.drop_last)", batch_size)
            : ""));
  }
  DistributedSampler sampler(
      size, rank, ranks,
      {config.data.shuffle, config.seed, training.drop_last ? Padding::drop : Padding::repeat});
  require_memory_for(
      config, training.global_batch_size ? "training.global_batch_size" : "training.batch_size",
      std::min(batch_size, sampler.length()), dataset->layout());
  return std::make_unique<Loader>(
      std::move(dataset), std::move(sampler),
      LoaderOptions{batch_size, config.data.workers, config.data.prefetch, training.drop_last});
}

std::unique_ptr<Loader> make_validation_loader(const RunConfig& config,
                                               std::shared_ptr<const Dataset> dataset, int rank,
                                               int ranks) {
  const auto validation_batch = validation_batch_size_of(config.training, dataset->layout(), ranks);
  DistributedSampler sampler(dataset->size(), rank, ranks, {false, 0, Padding::none});
  require_memory_for(config, "training.validation_batch_size",
                     std::min(validation_batch, sampler.length()), dataset->layout());
  return std::make_unique<Loader>(
      std::move(dataset), std::move(sampler),
      LoaderOptions{validation_batch, config.data.workers, config.data.prefetch, false});
}

MpiOptions make_mpi_options(const CommunicationConfig& config) {
  MpiOptions options;
  options.shared_memory = config.shared_memory;
  return options;
}

TrainerOptions make_trainer_options(const RunConfig& config) {
  TrainerOptions options;
  options.epochs = config.training.n_epochs;
  options.max_steps = config.training.max_steps;
  options.seed = config.seed;
  options.buckets = {bytes_of_mebibytes(config.communication.first_bucket_mb),
                     bytes_of_mebibytes(config.communication.bucket_mb)};
  options.reducer.overlap = config.communication.overlap;
  options.step_sharing.enabled = config.optimizer.shared_step;
  options.mixup_alpha = config.training.mixup_alpha;
  options.maximum_norm = config.training.clip_norm;
  options.patience = config.training.early_stopping_patience;
  options.check_replicas_every = config.training.check_replicas_every;
  if (config.training.precision == Precision::fp16) options.loss_scale.emplace();
  options.non_finite = config.training.non_finite;
  return options;
}

CheckpointSchedule make_checkpoint_schedule(const CheckpointConfig& config) {
  return {config.every_epochs, config.every_steps, config.at_start};
}

}  // namespace kolo
