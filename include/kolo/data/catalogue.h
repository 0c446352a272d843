#pragma once

#include <cstdint>
#include <filesystem>
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
  std::string note_of_loads = {};  // how much was loaded by how many ranks, for the run's log
  std::string note_of_split = {};  // which samples validate, where no others were named; likewise
  // Names of the channels of inputs and of targets, or of a target's arrays, where the data has
  // any.
  std::vector<std::string> input_names = {}, target_names = {};
};

// Way of reading data.
struct DataReading {
  // Also finds empty images, at the cost of a system call for each file; one rank is enough.
  bool looks_at_files = true;
  bool varies = true;        // false: training samples are read as those of a validation
  bool loads_later = false;  // data kept in memory is read by Datasets::loads, not at once
};

// Inputs without targets, to predict from.
struct PredictionInputs {
  std::shared_ptr<const Dataset> samples;  // read as those of a validation; all of class 0
  // File of a sample; empty where samples are rows of arrays.
  std::function<std::string(std::int64_t index)> file = {};
  std::vector<std::string> target_names = {};  // of the arrays that are predicted, where known
  std::vector<std::string> warnings = {};
};

// Request for a data set, beside its own keys.
struct DatasetRequest {
  // Samples of the training and the validation; unset: all.
  std::optional<std::int64_t> n_train = {}, n_valid = {};
  std::uint64_t seed = 1;
  std::vector<std::int64_t> model_shape = {};      // that the model is asked for; empty: the data's
  std::optional<std::int64_t> model_classes = {};  // likewise
  DataReading reading = {};
  RefuseKey refuse = {};           // a key of the data's own, n_train or n_valid
  RefuseKey refuse_of_model = {};  // input_shape of the model
};

struct DatasetEntry : ChoiceEntry {
  // Name of its samples: "crops".
  std::function<std::string(const OwnSettings&)> samples = [](const OwnSettings&) {
    return std::string("images");
  };
  // Reason why it needs a GPU; empty if it doesn't.
  std::function<std::string(const OwnSettings&)> needs_gpu = [](const OwnSettings&) {
    return std::string();
  };
  // Reason why it needs n_train and n_valid; empty if it doesn't.
  std::string needs_n_train = {}, needs_n_valid = {};
  std::string validation_key = "path";  // key of the validation samples, for messages
  // Keys of its own that make other samples of the same files, which a resumed run must not change.
  std::vector<std::string> order_keys = {};
  std::function<Datasets(const OwnSettings&, const DatasetRequest&)> make = {};
  // Opens what a user names as inputs for a network that was trained on samples of this layout.
  // InputError if it is none of this data's kind. Empty: only a whole simulation box will do.
  std::function<PredictionInputs(const OwnSettings&, const SampleLayout&,
                                 const std::filesystem::path&)>
      inputs = {};
  // Layout of its samples, without reading them, to measure steps without the data.
  std::function<SampleLayout(const OwnSettings&, const DatasetRequest&)> layout = {};
};

// Entries of src/data/catalogue.
[[nodiscard]] const std::vector<DatasetEntry>& built_in_datasets();

// InputError where there is none of that name.
[[nodiscard]] const DatasetEntry& dataset_entry(std::string_view name);

// Random samples of a layout (RandomDataset), others for validation.
[[nodiscard]] Datasets random_datasets(const SampleLayout& layout, std::int64_t n_train,
                                       std::int64_t n_valid, std::uint64_t seed);

// Refuses lengths whose product does not fit 64 bits.
void check_shape(const RefuseKey& refuse, std::string_view key,
                 const std::vector<std::int64_t>& shape);

// Makes [3, 32, 32] of [32, 32, 3], as Keras writes it: three lengths are taken for channels last
// if the last can be a number of channels and the first can't.
void put_channels_first(std::vector<std::int64_t>& shape);

}  // namespace kolo
