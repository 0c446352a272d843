#include "kolo/config/factories.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kolo {

namespace {

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
  require(training.input_parts, validation.input_parts, "shape, array by array,");
  require(training.target_parts, validation.target_parts, "target's shape, array by array,");
  require(training.input_shape, validation.input_shape, "shape");
  require(training.target_shape, validation.target_shape, "target's shape");
}

DatasetRequest request_of(const RunConfig& config, const DataReading& reading) {
  auto request = request_of(config);
  request.looks_at_files = reading.looks_at_files;
  request.varies = reading.varies;
  request.loads_later = reading.loads_later;
  return request;
}

}  // namespace

Datasets make_synthetic_datasets(const RunConfig& config, std::int64_t least) {
  return dataset_entry(config.data.name).imitate(completed(config.data), request_of(config), least);
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

}  // namespace kolo
