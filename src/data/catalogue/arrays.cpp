#include <algorithm>

#include <fmt/format.h>

#include "data/catalogue/dataset_settings.h"
#include "kolo/data/array_samples.h"

namespace kolo::datasets {

struct ArraysData {
  std::string train_path, valid_path;     // a folder of .npy, or an HDF5 file
  std::optional<std::int64_t> n_classes;  // of labels; unset: as the training's labels say
  double divisor = 1;                     // of inputs
  // The names of the arrays; of several the values come one after another.
  std::vector<std::string> inputs = {"inputs"}, targets;  // no targets: `targets` or `labels`

  void check(const RefuseKey& refuse) const {
    for (const auto& [key, path] :
         {std::pair("train_path", &train_path), std::pair("valid_path", &valid_path)}) {
      if (path->empty()) {
        refuse(key,
               "data arrays needs a folder with inputs.npy and targets.npy or labels.npy, or an "
               "HDF5 file with these datasets");
      }
    }
    if (inputs.empty()) refuse("inputs", "expected the name of one array or more, got none");
    check_names(refuse, "inputs", inputs);
    check_names(refuse, "targets", targets);
  }
  static void check_names(const RefuseKey& refuse, std::string_view key,
                          const std::vector<std::string>& names);
  [[nodiscard]] ArraySamplesOptions options(std::optional<std::int64_t> classes) const {
    return {.divisor = divisor, .classes = classes, .inputs = inputs, .targets = targets};
  }
  [[nodiscard]] Datasets make(const DatasetRequest& request) const;
  [[nodiscard]] Datasets imitate(const DatasetRequest& request, std::int64_t least) const;
  [[nodiscard]] static std::string samples() { return "samples"; }
};

template <typename Field>
void visit(Field& field, ArraysData& arrays) {
  field("train_path", arrays.train_path, PathText{});
  field("valid_path", arrays.valid_path, PathText{});
  field("n_classes", arrays.n_classes, positive.up_to(most_of_a_kind),
        Unset{"as the training's labels say"});
  field("divisor", arrays.divisor, positive);
  field("inputs", arrays.inputs, AnyText{});
  field("targets", arrays.targets, AnyText{});
}

// A name that stands twice is a slip: the array would be read twice.
void ArraysData::check_names(const RefuseKey& refuse, std::string_view key,
                             const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) refuse(key, "an array's name is empty");
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i))
      refuse(key, fmt::format("{} stands there twice; name each array once", names[i]));
  }
}

Datasets ArraysData::make(const DatasetRequest& request) const {
  const auto read = [&](std::string_view key, const std::string& path,
                        std::optional<std::int64_t> classes) {
    return at_key(request, key,
                  [&] { return std::make_shared<ArraySamples>(path, options(classes)); });
  };
  const auto training = read("train_path", train_path, n_classes);
  const auto classes = training->layout().classes;
  const auto validation =
      read("valid_path", valid_path, classes > 0 ? std::optional(classes) : std::nullopt);
  if ((validation->layout().classes > 0) != (classes > 0))
    request.refuse("valid_path",
                   "has labels where the training has targets, or the other way round");
  auto warnings = training->warnings();
  warnings.insert(warnings.end(), validation->warnings().begin(), validation->warnings().end());
  return {first_of(request, Split::train, training),
          first_of(request, Split::validation, validation),
          {},
          std::move(warnings)};
}

// Shapes of samples stand in the files alone.
Datasets ArraysData::imitate(const DatasetRequest& request, std::int64_t least) const {
  const auto layout = at_key(request, "train_path",
                             [&] { return ArraySamples(train_path, options(n_classes)).layout(); });
  return random_datasets(layout, std::max(least, request.n_train.value_or(1)), 1, request.seed);
}

DatasetEntry arrays() {
  auto entry = entry_of<ArraysData>("arrays", "numbers of one's own, from .npy or HDF5 files");
  entry.validation_key = "valid_path";
  return entry;
}

}  // namespace kolo::datasets
