#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "kolo/config/factories.h"

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
  require(training.input_shape, validation.input_shape, "shape");
  require(training.target_shape, validation.target_shape, "target's shape");
}

}  // namespace

Datasets make_synthetic_datasets(const RunConfig& config, std::int64_t least) {
  return dataset_entry(config.data.name).imitate(completed(config.data), request_of(config), least);
}

Datasets make_datasets(const RunConfig& config, bool looks_at_files, bool varies) {
  auto request = request_of(config);
  request.looks_at_files = looks_at_files;
  request.varies = varies;
  auto datasets = dataset_entry(config.data.name).make(completed(config.data), request);
  require_same_samples(config, datasets);
  return datasets;
}

std::string sample_name(const DataConfig& data) {
  return dataset_entry(data.name).samples(completed(data));
}

}  // namespace kolo
