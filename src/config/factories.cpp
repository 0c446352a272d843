#include "kolo/config/factories.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/memory_failure.h"
#include "config/settle.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/generators.h"
#include "kolo/base/machine.h"
#include "kolo/base/random.h"
#include "kolo/data/loader.h"
#include "kolo/nn/loss.h"
#include "kolo/nn/models.h"
#include "kolo/optim/catalogue.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/train/objective.h"
#include "kolo/train/observe/format.h"
#include "kolo/train/trainer.h"
#include "settings/choice_reader.h"
#include "settings/value.h"

namespace kolo {

namespace {

// Streams of one seed.
constexpr std::uint32_t weights_stream = 0xFFFFFFFF;  // the trainer uses the ranks' numbers

// A binary loss takes one output for two classes.
std::int64_t outputs_of(const RunConfig& config, const SampleLayout& layout) {
  const auto& given = config.model.n_classes;
  if (layout.classes == 0) return 0;
  if (loss_entry(config.training.loss).is_binary) {
    if (layout.classes > 2) {
      refuse_setting(config, "training.loss",
                     fmt::format("{} tells two classes apart, but the data has {}; use "
                                 "cross_entropy",
                                 config.training.loss, layout.classes));
    }
    return given.value_or(1);
  }
  if (given && *given < layout.classes) {
    refuse_setting(config, "model.n_classes",
                   fmt::format("{}, but the data has {} classes; leave it out to take the data's",
                               *given, layout.classes));
  }
  const auto outputs = given.value_or(layout.classes);
  if (outputs == 1) {
    refuse_setting(
        config, given ? "model.n_classes" : "training.loss",
        fmt::format("{} of one output is 0 whatever the network puts out{}; it takes two "
                    "classes or more (binary_crossentropy tells two apart by one output)",
                    config.training.loss,
                    layout.classes == 1 ? ", and all labels of the data are 0" : ""));
  }
  return outputs;
}

// "l1 or mse"
std::string losses_for(bool has_classes) {
  std::vector<std::string> names;
  for (const auto& entry : built_in_losses())
    if (entry.has_classes == has_classes) names.push_back(entry.name);
  return fmt::format("{}", fmt::join(names, " or "));
}

void require_loss_of(const RunConfig& config, const SampleLayout& layout) {
  const auto& loss = loss_entry(config.training.loss);
  const bool has_classes = layout.classes > 0;
  if (loss.has_classes == has_classes) return;
  refuse_setting(
      config, "training.loss",
      fmt::format("{}, but the targets of the data {} are {}; use {}", loss.name, config.data.name,
                  has_classes ? "classes" : "numbers", losses_for(has_classes)));
}

// A penalty l2 * sum of w^2 has the gradient 2 * l2 * w, which is a weight decay of 2 * l2 without
// a pass over the weights for the loss. (Clipping comes before it, and LARS, LAMB and Schedule-Free
// AdamW decay in their own way: docs/use/configuration.md.)
WeightDecay decay_of(const RunConfig& config, double l2) {
  if (l2 > 0) return {2 * l2, false, true};
  return decay_of(config.optimizer);
}

// "mlp of samples of [784] and 10 classes, hidden=[1024, 1024]"
std::string describe_network(const RunConfig& config, const SampleLayout& layout,
                             const ModelCatalogue& models) {
  auto text =
      fmt::format("{} of samples of [{}]", config.model.name, fmt::join(layout.input_shape, ", "));
  if (layout.classes > 0)
    text += fmt::format(" and {} classes", layout.classes);
  else
    text += fmt::format(" and targets of [{}]", fmt::join(layout.target_shape, ", "));
  const auto keys = keys_of(models.find(config.model.name));
  for (const auto& [key, value] : settings_of(config)) {
    const auto own = key.substr(key.find('.') + 1);
    const bool is_own = key.starts_with("model.") && std::ranges::find(keys, own) != keys.end();
    if (is_own && value != unset_text) text += fmt::format(", {}={}", own, value);
  }
  return text;
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
  const auto classes = outputs_of(config, layout);
  const DrawAlone turn;
  torch::manual_seed(derive_seed(config.seed, weights_stream, 0));
  auto network = at_setting(config, "model.name", [&] {
    try {
      return models.make(model.name, model.own,
                         {.input_shape = layout.input_shape,
                          .classes = classes,
                          .output_shape = layout.target_shape,
                          .input_shapes = layout.input_shapes,
                          .output_shapes = layout.target_shapes});
    } catch (const std::exception& error) {
      if (!wants_memory(error)) throw;
      throw InputError(fmt::format(
          "there is not enough memory for the network {}; make these smaller, or wait until the "
          "machine has more free memory",
          describe_network(config, layout, models)));
    }
  });
  if (!model.freeze.empty())
    at_setting(config, "model.freeze", [&] { network->freeze(model.freeze); });
  return network;
}

Objective make_objective(const RunConfig& config) {
  const auto& training = config.training;
  const auto& loss = loss_entry(training.loss);
  const auto own = loss.completed(training.loss_own);
  Objective objective{loss.make(own), loss.make_for_validation(own)};
  objective.precision = training.precision;
  objective.counts_correct = loss.has_classes;
  const auto& metrics = training.metrics;
  if (std::ranges::find(metrics, Metric::top_k_categorical_accuracy) != metrics.end())
    objective.top = 5;  // Keras's k
  return objective;
}

std::unique_ptr<FlatOptimizer> make_optimizer(const RunConfig& config,
                                              const ModelCatalogue& models) {
  return make_optimizer(config.optimizer, decay_of(config, l2_of(config, models)));
}

namespace {

// Hook that compresses gradients; null for none. It keeps PowerSGD's residuals, so each trainer has
// one of its own.
std::shared_ptr<GradientHook> make_compression(const CommunicationConfig& config) {
  PowerSgdOptions powersgd;
  switch (config.compression) {
    case Compression::none:
      return nullptr;
    case Compression::bf16:
      return bfloat16_compression();
    case Compression::fp16:
      return float16_compression();
    case Compression::powersgd:
      powersgd.rank = config.powersgd_rank.value_or(powersgd.rank);
      powersgd.start_step = config.powersgd_start_step.value_or(powersgd.start_step);
      return power_sgd(powersgd);
  }
  return nullptr;
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

// A box that lies there is cut there.
bool makes_on_device(const RunConfig& config) {
  return config.device.augment || !need_of_gpu(config.data).empty();
}

}  // namespace

std::unique_ptr<Loader> make_training_loader(const RunConfig& config,
                                             std::shared_ptr<const Dataset> dataset, int rank,
                                             int ranks, int count) {
  const auto size = dataset->size();
  const auto& training = config.training;
  const auto batch_size = batch_size_of(training, ranks);
  const bool is_pipelined = config.parallel.pipeline > 1;  // its batches are of one size
  const bool drops_last = training.drop_last || is_pipelined;
  const auto needed = drops_last ? checked_multiply<std::int64_t>(ranks, batch_size) : ranks;
  if (size < needed) {
    throw InputError(fmt::format(
        "data: {} training samples are too few for {} {}s{}; use fewer {}s or more samples", size,
        ranks, replica_name(config),
        drops_last ? fmt::format(" with whole batches of {} ({})", batch_size,
                                 is_pipelined ? "parallel.pipeline" : "training.drop_last")
                   : "",
        replica_name(config)));
  }
  DistributedSampler sampler(
      size, rank, ranks,
      {config.data.shuffle, config.seed, drops_last ? Padding::drop : Padding::repeat}, count);
  require_memory_for(
      config, training.global_batch_size ? "training.global_batch_size" : "training.batch_size",
      checked_multiply<std::int64_t>(std::min(batch_size, sampler.length()), count),
      dataset->layout());
  return std::make_unique<Loader>(
      std::move(dataset), std::move(sampler),
      LoaderOptions{batch_size, config.data.workers, config.data.prefetch, drops_last,
                    makes_on_device(config)});
}

std::unique_ptr<Loader> make_validation_loader(const RunConfig& config,
                                               std::shared_ptr<const Dataset> dataset, int rank,
                                               int ranks, int count) {
  const auto validation_batch = validation_batch_size_of(config, *dataset, ranks);
  DistributedSampler sampler(dataset->size(), rank, ranks, {false, 0, Padding::none}, count);
  require_memory_for(
      config, "training.validation_batch_size",
      checked_multiply<std::int64_t>(std::min(validation_batch, sampler.length()), count),
      dataset->layout());
  return std::make_unique<Loader>(
      std::move(dataset), std::move(sampler),
      LoaderOptions{validation_batch, config.data.workers, config.data.prefetch, false,
                    makes_on_device(config)});
}

TrainerOptions make_trainer_options(const RunConfig& config) {
  TrainerOptions options;
  options.n_epochs = config.training.n_epochs;
  options.max_steps = config.training.max_steps;
  options.seed = config.seed;
  auto& buckets = options.buckets;
  constexpr double mebibyte = 1 << 20;
  buckets.bytes = std::max(std::int64_t{1},
                           static_cast<std::int64_t>(config.communication.bucket_mb * mebibyte));
  buckets.first_bytes = std::min(buckets.first_bytes, buckets.bytes);
  options.reducer.overlap = config.communication.overlap;
  options.reducer.hook = make_compression(config.communication);
  options.sharded = config.optimizer.sharded;
  options.shared_step.enabled = config.optimizer.shared_step;
  options.virtual_ranks = config.training.virtual_ranks;
  options.accumulation = config.training.accumulation;
  options.clip_norm = config.training.clip_norm;
  options.early_stopping_patience = config.training.early_stopping_patience;
  options.check_replicas_every = config.training.check_replicas_every;
  options.settle_every = config.checkpoint.every_steps;
  options.graphs = config.device.graphs;
  options.recompute = config.parallel.recompute;
  if (config.training.precision == Precision::fp16) options.loss_scale.emplace();
  options.non_finite = config.training.non_finite;
  return options;
}

namespace {

DatasetRequest request_of(const RunConfig& config, const DataReading& reading = {}) {
  return {.n_train = config.data.n_train,
          .n_valid = config.data.n_valid,
          .seed = config.seed,
          .model_shape = config.model.input_shape,
          .model_classes = config.model.n_classes,
          .reading = reading,
          .refuse = refuse_in(config, "data"),
          .refuse_of_model = refuse_in(config, "model")};
}

OwnSettings completed(const DataConfig& data) {
  return dataset_entry(data.name).completed(data.own);
}

// A network that is made for training samples can't take others when it is validated.
void require_same_samples(const RunConfig& config, const Datasets& datasets) {
  const auto &training = datasets.training->layout(), &validation = datasets.validation->layout();
  const auto require = [&](const auto& expected, const auto& found, std::string_view what) {
    if (expected == found) return;
    refuse_setting(config, "data." + dataset_entry(config.data.name).validation_key,
                   fmt::format("the {} of validation samples is [{}], but [{}] in training; both "
                               "must be the same",
                               what, fmt::join(found, ", "), fmt::join(expected, ", ")));
  };
  require(training.input_shapes, validation.input_shapes, "shape, array by array,");
  require(training.target_shapes, validation.target_shapes, "target's shape, array by array,");
  require(training.input_shape, validation.input_shape, "shape");
  require(training.target_shape, validation.target_shape, "target's shape");
}

}  // namespace

Datasets make_synthetic_datasets(const RunConfig& config, std::int64_t least) {
  const auto layout =
      dataset_entry(config.data.name).layout(completed(config.data), request_of(config));
  return random_datasets(layout, std::max(least, config.data.n_train.value_or(1)), 1, config.seed);
}

std::optional<PredictionInputs> open_inputs(const RunConfig& config, const SampleLayout& layout,
                                            const std::filesystem::path& path) {
  const auto& entry = dataset_entry(config.data.name);
  if (!entry.inputs) return std::nullopt;
  return entry.inputs(completed(config.data), layout, path);
}

Datasets make_datasets(const RunConfig& config, const DataReading& reading) {
  auto datasets =
      dataset_entry(config.data.name).make(completed(config.data), request_of(config, reading));
  require_same_samples(config, datasets);
  return datasets;
}

}  // namespace kolo
