#include "kolo/config/factories.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/machine.h"
#include "kolo/observe/format.h"

namespace kolo {

namespace {

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

RefuseKey refuse_in(const RunConfig& config, std::string_view section) {
  return [&config, section](std::string_view key, std::string_view reason) {
    refuse_setting(config, fmt::format("{}.{}", section, key), reason);
  };
}

DatasetRequest request_of(const RunConfig& config) {
  return {.n_train = config.data.n_train,
          .n_valid = config.data.n_valid,
          .seed = config.seed,
          .model_shape = config.model.input_shape,
          .model_classes = config.model.n_classes,
          .refuse = refuse_in(config, "data"),
          .refuse_of_model = refuse_in(config, "model")};
}

OwnSettings completed(const DataConfig& data) {
  const auto& entry = dataset_entry(data.name);
  auto own = data.own.has_value() ? data.own : entry.defaults;
  entry.complete(own);
  return own;
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
  require(training.input_parts, validation.input_parts, "shape, array by array,");
  require(training.target_parts, validation.target_parts, "target's shape, array by array,");
  require(training.input_shape, validation.input_shape, "shape");
  require(training.target_shape, validation.target_shape, "target's shape");
}

DatasetRequest request_of(const RunConfig& config, const DataReading& reading) {
  auto request = request_of(config);
  // Empty files are bad samples as others are, where those are skipped.
  request.looks_at_files = reading.looks_at_files && config.data.bad_samples == BadSamples::stop;
  request.varies = reading.varies;
  request.loads_later = reading.loads_later;
  request.survey = reading.survey;
  return request;
}

// A box that lies there is cut there.
bool makes_on_device(const RunConfig& config) {
  return config.device.augment || !need_of_gpu(config.data).empty();
}

}  // namespace

Datasets make_synthetic_datasets(const RunConfig& config, std::int64_t least) {
  return dataset_entry(config.data.name).imitate(completed(config.data), request_of(config), least);
}

std::string survey_datasets(const RunConfig& config, const DataReading& reading) {
  return dataset_entry(config.data.name)
      .survey(completed(config.data), request_of(config, reading));
}

Datasets make_datasets(const RunConfig& config, const DataReading& reading) {
  auto datasets =
      dataset_entry(config.data.name).make(completed(config.data), request_of(config, reading));
  require_same_samples(config, datasets);
  return datasets;
}

std::string sample_name(const DataConfig& data) {
  return dataset_entry(data.name).samples(completed(data));
}

std::string need_of_gpu(const DataConfig& data) {
  return dataset_entry(data.name).needs_gpu(completed(data));
}

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
        "data: {} training samples are too few for {} ranks{}; use fewer ranks or more samples",
        size, ranks,
        drops_last ? fmt::format(" with whole batches of {} ({})", batch_size,
                                 is_pipelined ? "parallel.pipeline" : "training.drop_last")
                   : ""));
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
                    makes_on_device(config), config.data.bad_samples});
}

// Any number of ranks may evaluate, whether they share the global batch evenly or not.
std::int64_t validation_batch_size_of(const RunConfig& config, const Dataset& dataset, int ranks) {
  const auto& training = config.training;
  const auto& layout = dataset.layout();
  if (training.validation_batch_size) return *training.validation_batch_size;
  const auto batch = training.batch_size
                         ? *training.batch_size
                         : std::max<std::int64_t>(1, *training.global_batch_size / ranks);
  // What a pass of the training is known to leave room for.
  const auto as_in_training = (batch + training.accumulation - 1) / training.accumulation;
  if (layout.classes == 0) return as_in_training;
  // Small images are fast in large batches; of large ones fewer are as fast, and take less memory.
  constexpr std::int64_t most_samples = 1000, most_numbers = std::int64_t{4} << 20;
  const auto fitting = most_numbers / std::max<std::int64_t>(1, layout.input_size());
  return std::min(most_samples, std::max(as_in_training, fitting));
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
                    makes_on_device(config), config.data.bad_samples});
}

}  // namespace kolo
