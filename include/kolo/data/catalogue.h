#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/data/dataset.h"
#include "kolo/settings/choice.h"

// Data sets by name, with their keys in a configuration.
namespace kolo {

struct Datasets {
  std::shared_ptr<const Dataset> training;
  std::shared_ptr<const Dataset> validation;
  std::vector<std::string> class_names = {};  // where the data names its classes
  std::vector<std::string> warnings = {};     // for the run's log
  // Loads to be done before any sample is read, where loads_later asked for that.
  std::vector<MemoryLoad> loads = {};
  std::string note_of_loads = {};  // how that was done, for the run's log
};

// What a data set is made for, beside its own keys.
struct DatasetRequest {
  // Samples of the training and the validation; unset: all. Below those that there are.
  std::optional<std::int64_t> n_train = {}, n_valid = {};
  std::uint64_t seed = 1;
  std::vector<std::int64_t> model_shape = {};      // that the model is asked for; empty: the data's
  std::optional<std::int64_t> model_classes = {};  // likewise
  bool varies = true;          // false: training samples are read as those of a validation
  bool looks_at_files = true;  // also what costs a question to the file system for each of many
  // What is kept in memory is read by whoever asks (Datasets::loads), not by make().
  bool loads_later = false;
  RefuseKey refuse = {};           // a key of the data's own, n_train or n_valid
  RefuseKey refuse_of_model = {};  // input_shape of the model
};

struct DatasetEntry : ChoiceEntry {
  // What they are called.
  std::function<std::string(const OwnSettings&)> samples = [](const OwnSettings&) {
    return std::string("images");
  };
  // Why it can't do without a GPU; empty where it can.
  std::function<std::string(const OwnSettings&)> needs_gpu = [](const OwnSettings&) {
    return std::string();
  };
  // Why it can't do without n_train and n_valid, where it can't.
  std::string needs_n_train = {}, needs_n_valid = {};
  std::string validation_key = "path";  // says where the validation samples come from
  std::function<Datasets(const OwnSettings&, const DatasetRequest&)> make = {};
  // Random samples of the same shape, without reading any: for measuring steps where the data
  // isn't. At least `least`.
  std::function<Datasets(const OwnSettings&, const DatasetRequest&, std::int64_t least)> imitate =
      {};
};

// Those of src/data/catalogue.
[[nodiscard]] const std::vector<DatasetEntry>& built_in_datasets();

// Error where there is none of that name.
[[nodiscard]] const DatasetEntry& dataset_entry(std::string_view name);

// [32, 32, 3], as Keras writes it, is [3, 32, 32] here. Three lengths are taken for channels last
// when the last can be a number of channels and the first can't.
void put_channels_first(std::vector<std::int64_t>& shape);

}  // namespace kolo
