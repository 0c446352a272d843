#include "kolo/data/array_samples.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/catalogue/dataset_settings.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/data/array_file.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view all_arrays =
    "inputs, and either targets (numbers) or labels (classes), or the arrays that data.inputs and "
    "data.targets name";

[[noreturn]] void refuse(const ArrayCollection& collection, const std::string& found,
                         std::string_view expected = all_arrays) {
  throw InputError(fmt::format(
      "data: {} {}; expected {}: {}", collection.path().string(), found, expected,
      collection.is_folder()
          ? "arrays such as inputs.npy, with samples in front, or folders such as inputs/ with a "
            ".npy file per sample"
          : "HDF5 datasets, with samples in front"));
}

std::vector<NamedArray> find_all(const ArrayCollection& collection,
                                 const std::vector<std::string>& names,
                                 std::string_view expected = all_arrays) {
  std::vector<NamedArray> arrays;
  for (const auto& name : names) {
    arrays.push_back(collection.find(name));
    if (!arrays.back().array) refuse(collection, "has no " + name, expected);
  }
  return arrays;
}

// Finds the arrays of an input, without targets.
std::vector<NamedArray> find_inputs(const fs::path& path, const std::vector<std::string>& names) {
  std::error_code ignored;
  if (names.size() == 1 && path.extension() == ".npy" && !fs::is_directory(path, ignored))
    return {{path.stem().string(), open_npy_array(path)}};
  return find_all(ArrayCollection(path), names, join(names, " and "));
}

void require_samples(const ArrayFile& array) {
  const auto& shape = array.layout().shape;
  if (shape.empty() || array.rows() < 1) {
    throw InputError(
        fmt::format("data: {} has the shape ({}), expected samples in front, at least one",
                    array.name(), fmt::join(shape, ", ")));
  }
  if (array.row_numbers() < 1)
    throw InputError(fmt::format("data: the samples of {} are empty", array.name()));
}

// Samples of files belong together by their names.
void require_same_names(const NamedArray& first, const NamedArray& other) {
  const auto count = std::min(first.row_names.size(), other.row_names.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (first.row_names[i] == other.row_names[i]) continue;
    throw InputError(fmt::format(
        "data: the files of {} and {} must have the same names; the first that differ are {}.npy "
        "and {}.npy",
        first.array->name(), other.array->name(), first.row_names[i], other.row_names[i]));
  }
}

// Files are matched with the rows of an array by their order alone.
void warn_of_natural_order(const NamedArray& files, const ArrayFile& rows,
                           std::vector<std::string>& warnings) {
  const auto pair = find_names_out_of_bytes_order(files.row_names);
  if (!pair) return;
  warnings.push_back(fmt::format(
      "data: the files of {} are the rows of {} in natural order: {}.npy comes before {}.npy, "
      "which is the other way round where names are sorted letter by letter, as Python's sorted() "
      "does; numbers of equally many digits (0002.npy, 0010.npy) leave no doubt",
      files.array->name(), rows.name(), pair->first, pair->second));
}

void check_files(const std::vector<NamedArray>& arrays, std::vector<std::string>& warnings) {
  const NamedArray* first = nullptr;
  const auto single =
      std::ranges::find_if(arrays, [](const NamedArray& array) { return array.row_names.empty(); });
  for (const auto& array : arrays) {
    if (array.row_names.empty()) continue;
    if (!array.left_out.empty()) {
      warnings.push_back(fmt::format("data: {} of what is in {} is no .npy file and left out: {}",
                                     array.left_out.size(), array.array->name(),
                                     join_first(array.left_out)));
    }
    if (first != nullptr) require_same_names(*first, array);
    if (first == nullptr) first = &array;
    if (single != arrays.end()) warn_of_natural_order(array, *single->array, warnings);
  }
}

void require_length(const ArrayFile& inputs, const ArrayFile& others) {
  if (inputs.rows() == others.rows()) return;
  throw InputError(fmt::format("data: {} has {} samples, but {} has {}", inputs.name(),
                               inputs.rows(), others.name(), others.rows()));
}

// Shape of an input: two lengths get a channel in front.
std::vector<std::int64_t> input_shape(const ArrayFile& array) {
  auto shape = array.row_shape();
  if (shape.empty()) shape = {1};
  if (shape.size() == 2) shape.insert(shape.begin(), 1);
  return shape;
}

std::vector<std::int64_t> target_shape(const ArrayFile& array) {
  auto shape = array.row_shape();
  return shape.empty() ? std::vector<std::int64_t>{1} : shape;
}

// Lays out inputs or targets: the shape of a single array, or the length of several, and their
// shapes.
template <typename ShapeOf>
void lay_out(const std::vector<NamedArray>& arrays, const ShapeOf& shape_of,
             std::vector<std::int64_t>& shape, std::vector<std::vector<std::int64_t>>& parts) {
  shape = shape_of(*arrays.front().array);
  if (arrays.size() == 1) return;
  shape = {0};
  for (const auto& each : arrays) {
    shape[0] = checked_add(shape[0], each.array->row_numbers());
    parts.push_back(shape_of(*each.array));
  }
}

// One after another.
void read_arrays(const std::vector<NamedArray>& arrays, std::int64_t index,
                 std::span<float> numbers) {
  for (const auto& each : arrays) {
    const auto count = static_cast<std::size_t>(each.array->row_numbers());
    each.array->read(index, 1, numbers.first(count));
    numbers = numbers.subspan(count);
  }
}

}  // namespace

ArraySamples::ArraySamples(const fs::path& path, const ArraySamplesOptions& options)
    : divisor_(static_cast<float>(options.divisor)) {
  if (!(options.divisor > 0) || !std::isfinite(options.divisor)) {
    throw InputError(
        fmt::format("data: inputs divided by {}; expected a number above 0", options.divisor));
  }
  if (options.inputs.empty()) throw InputError("data: arrays need the name of an input at least");
  if (options.has_targets)
    find_targets(ArrayCollection(path), options);
  else
    inputs_ = find_inputs(path, options.inputs);
  const auto all = arrays();
  for (const auto& each : all) require_samples(*each.array);
  check_files(all, warnings_);
  for (const auto& each : all) require_length(*inputs_.front().array, *each.array);
  lay_out(inputs_, input_shape, layout_.input_shape, layout_.input_shapes);
  if (label_array_.array) {
    take_labels(options.classes);
  } else if (options.has_targets) {
    lay_out(targets_, target_shape, layout_.target_shape, layout_.target_shapes);
  } else {
    layout_.classes = 1;
    labels_.resize(static_cast<std::size_t>(size()));
  }
}

void ArraySamples::find_targets(const ArrayCollection& collection,
                                const ArraySamplesOptions& options) {
  inputs_ = find_all(collection, options.inputs);
  targets_ = find_all(collection, options.targets);
  if (!options.targets.empty()) return;
  auto targets = collection.find("targets");
  for (const auto name : label_names)
    if (!label_array_.array && (name == label_names.front() || !targets.array))
      label_array_ = collection.find(std::string(name));
  if (!targets.array && !label_array_.array) refuse(collection, "has neither targets nor labels");
  if (targets.array && label_array_.array) refuse(collection, "has both targets and labels");
  if (targets.array) targets_ = {std::move(targets)};
}

void ArraySamples::take_labels(std::optional<std::int64_t> classes) {
  const auto& labels = *label_array_.array;
  if (!labels.is_whole() || labels.row_numbers() != 1) {
    throw InputError(fmt::format(
        "data: {} holds {} of type {} per sample; labels are one whole number each, targets may be "
        "any numbers",
        labels.name(),
        labels.row_shape().empty()
            ? "a number"
            : fmt::format("[{}] numbers", fmt::join(labels.row_shape(), ", ")),
        labels.layout().type));
  }
  labels_.resize(static_cast<std::size_t>(labels.rows()));
  labels.read(0, labels.rows(), std::span(labels_));
  constexpr std::int64_t most_classes = 1000000000;
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    const auto end = classes.value_or(most_classes);
    if (labels_[i] >= 0 && labels_[i] < end) continue;
    throw InputError(fmt::format("data: {}: the label of sample {} is {}, expected 0 to {}",
                                 labels.name(), i, labels_[i], end - 1));
  }
  const auto largest = std::ranges::max_element(labels_);
  // A label that makes so many classes, most of them without a sample, is wrong.
  constexpr std::int64_t usual_classes = 100000;
  if (!classes && *largest >= std::max(usual_classes, labels.rows())) {
    throw InputError(fmt::format(
        "data: {}: the label of sample {} is {}, which makes {} classes of {} samples; correct it, "
        "or give the number of classes (data.n_classes) if it is right",
        labels.name(), largest - labels_.begin(), *largest, *largest + 1, labels.rows()));
  }
  layout_.classes = classes.value_or(1 + *largest);
}

std::int64_t ArraySamples::size() const {
  return inputs_.front().array->rows();
}

void ArraySamples::read(std::int64_t index, std::int64_t /*epoch*/,
                        const SampleSpans& place) const {
  check_read(index, place, static_cast<std::size_t>(layout_.input_size()),
             static_cast<std::size_t>(layout_.target_size()));
  read_arrays(inputs_, index, place.input);
  if (divisor_ != 1)
    for (float& number : place.input) number /= divisor_;
  read_arrays(targets_, index, place.target);
  if (!place.label.empty()) place.label[0] = labels_[static_cast<std::size_t>(index)];
}

std::vector<NamedArray> ArraySamples::arrays() const {
  auto arrays = inputs_;
  arrays.insert(arrays.end(), targets_.begin(), targets_.end());
  if (label_array_.array) arrays.push_back(label_array_);
  return arrays;
}

}  // namespace kolo

namespace kolo::datasets {

struct ArraysData {
  // Folders of .npy, or HDF5 files; without valid_path every fifth sample validates.
  std::string train_path, valid_path;
  ArraySamplesOptions options;

  void check(const RefuseKey& refuse) const;
  [[nodiscard]] Datasets make(const DatasetRequest& request) const;
  [[nodiscard]] SampleLayout layout(const DatasetRequest& request) const;
  [[nodiscard]] PredictionInputs inputs(const SampleLayout&, const fs::path& path) const;
  [[nodiscard]] static std::string samples() { return "samples"; }
};

template <typename Field>
void visit(Field& field, ArraysData& arrays) {
  field("train_path", arrays.train_path, PathText{});
  field("valid_path", arrays.valid_path, PathText{});
  field("n_classes", arrays.options.classes, positive.up_to(most_of_a_kind),
        Unset{"as the training's labels say"});
  field("divisor", arrays.options.divisor, positive);
  field("inputs", arrays.options.inputs, AnyText{});
  field("targets", arrays.options.targets, AnyText{});
}

void ArraysData::check(const RefuseKey& refuse) const {
  if (train_path.empty()) {
    refuse("train_path",
           "data arrays needs a folder with inputs.npy and targets.npy or labels.npy, or an HDF5 "
           "file with these datasets");
  }
  if (options.inputs.empty()) refuse("inputs", "expected the name of one array or more, got none");
  for (const auto& [key, given] :
       {std::pair("inputs", &options.inputs), std::pair("targets", &options.targets)}) {
    auto names = *given;
    std::ranges::sort(names);
    if (!names.empty() && names.front().empty()) refuse(key, "an array's name is empty");
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end())
      refuse(key, fmt::format("{} stands there twice; name each array once", *twice));
  }
}

Datasets ArraysData::make(const DatasetRequest& request) const {
  const auto read = [&](std::string_view key, const std::string& path,
                        const ArraySamplesOptions& how) {
    return at_key(request, key, [&] { return std::make_shared<ArraySamples>(path, how); });
  };
  const auto training = read("train_path", train_path, options);
  auto warnings = training->warnings();
  SplitSamples samples;
  if (valid_path.empty()) {
    const std::array class_ends{training->size()};
    samples = split_samples(request, "path", training, training, class_ends);
  } else {
    const auto classes = training->layout().classes;
    auto same = options;
    same.classes = classes > 0 ? std::optional(classes) : std::nullopt;
    const auto validation = read("valid_path", valid_path, same);
    if ((validation->layout().classes > 0) != (classes > 0))
      request.refuse("valid_path",
                     "has labels where the training has targets, or the other way round");
    warnings.insert(warnings.end(), validation->warnings().begin(), validation->warnings().end());
    samples = {training, validation, {}};
  }
  return {.training = first_of(request, Split::train, samples.training),
          .validation = first_of(request, Split::validation, samples.validation),
          .warnings = std::move(warnings),
          .note_of_split = samples.note,
          .target_names = options.targets};
}

// Reads the shapes of samples from the files, the only place that has them.
SampleLayout ArraysData::layout(const DatasetRequest& request) const {
  return at_key(request, "train_path", [&] { return ArraySamples(train_path, options).layout(); });
}

PredictionInputs ArraysData::inputs(const SampleLayout&, const fs::path& path) const {
  auto without_targets = options;
  without_targets.has_targets = false;
  const auto samples = std::make_shared<ArraySamples>(path, without_targets);
  return {samples, {}, options.targets, samples->warnings()};
}

DatasetEntry arrays() {
  auto entry = entry_of<ArraysData>("arrays", "numbers of one's own, from .npy or HDF5 files");
  entry.validation_key = "valid_path";
  return entry;
}

}  // namespace kolo::datasets
