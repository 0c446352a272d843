#include "kolo/data/array_samples.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/boxes/number_array.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

using Array = std::shared_ptr<const NumberArray>;

// The arrays of one path; targets: none where there are labels.
struct Arrays {
  std::vector<Array> inputs, targets;
  Array labels;
};

std::vector<fs::path> npy_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".npy") files.push_back(entry.path());
  std::ranges::sort(files, {}, [](const fs::path& file) { return file.native(); });
  return files;
}

// NAME.npy, or the files of the folder NAME; null where neither is there.
Array find_npy(const fs::path& folder, const std::string& name) {
  if (const auto file = folder / (name + ".npy"); fs::exists(file)) return open_npy_array(file);
  const auto files = folder / name;
  return fs::is_directory(files) ? open_npy_files(files.string(), npy_files_in(files)) : nullptr;
}

// Samples of files belong together by their names.
void require_same_names(const fs::path& folder, const std::vector<std::string>& arrays) {
  std::vector<fs::path> folders;
  for (const auto& name : arrays)
    if (!fs::exists(folder / (name + ".npy")) && fs::is_directory(folder / name))
      folders.push_back(folder / name);
  for (std::size_t other = 1; other < folders.size(); ++other) {
    const auto first = npy_files_in(folders[0]), found = npy_files_in(folders[other]);
    for (std::size_t i = 0; i < std::min(first.size(), found.size()); ++i) {
      if (first[i].filename() == found[i].filename()) continue;
      throw InputError(fmt::format(
          "data: the files of {} and {} must have the same names; the first that differ are {} and "
          "{}",
          folders[0].string(), folders[other].string(), first[i].filename().string(),
          found[i].filename().string()));
    }
  }
}

// Opens the arrays of one path.
class ArrayFinder {
 public:
  explicit ArrayFinder(const fs::path& path) : path_(path), is_folder_(fs::is_directory(path)) {
    if (!fs::exists(path)) throw InputError(fmt::format("data: {} does not exist", path.string()));
  }

  // Null where there is none of that name.
  [[nodiscard]] Array find(const std::string& name) const {
    return is_folder_ ? find_npy(path_, name) : open_hdf5_array(path_, name);
  }
  [[nodiscard]] std::vector<Array> all(const std::vector<std::string>& names) const {
    std::vector<Array> arrays;
    for (const auto& name : names) {
      arrays.push_back(find(name));
      if (!arrays.back()) refuse("has no " + name);
    }
    return arrays;
  }
  [[nodiscard]] bool is_folder() const { return is_folder_; }

  [[noreturn]] void refuse(const std::string& found) const {
    throw InputError(fmt::format(
        "data: {} {}; expected inputs, and either targets (numbers) or labels (classes), or the "
        "arrays that data.inputs and data.targets name: {}",
        path_.string(), found,
        is_folder_ ? "arrays such as inputs.npy, with samples in front, or folders such as inputs/ "
                     "with a .npy file per sample"
                   : "HDF5 datasets, with samples in front"));
  }

 private:
  const fs::path& path_;
  bool is_folder_;
};

Arrays open_arrays(const fs::path& path, const ArraySamplesOptions& options) {
  if (options.inputs.empty()) throw InputError("data: arrays need the name of an input at least");
  const ArrayFinder finder(path);
  Arrays arrays{finder.all(options.inputs), finder.all(options.targets), nullptr};
  auto names = options.inputs;
  names.insert(names.end(), options.targets.begin(), options.targets.end());
  if (options.targets.empty()) {
    names.emplace_back("targets");
    arrays.labels = finder.find("labels");
    const auto targets = finder.find("targets");
    if (!targets && !arrays.labels) finder.refuse("has neither targets nor labels");
    if (targets && arrays.labels) finder.refuse("has both targets and labels");
    if (targets) arrays.targets = {targets};
  }
  if (finder.is_folder()) require_same_names(path, names);
  return arrays;
}

void require_length(const NumberArray& inputs, const NumberArray& others) {
  if (inputs.size() == others.size()) return;
  throw InputError(fmt::format("data: {} has {} samples, but {} has {}", inputs.name(),
                               inputs.size(), others.name(), others.size()));
}

// Of one sample.
std::int64_t numbers_in(const NumberArray& array) {
  return checked_product(std::span<const std::int64_t>(array.shape()));
}

// With a channel in front of two lengths.
std::vector<std::int64_t> input_shape(const NumberArray& array) {
  auto shape = array.shape();
  if (shape.empty()) shape = {1};
  if (shape.size() == 2) shape.insert(shape.begin(), 1);
  return shape;
}

std::vector<std::int64_t> target_shape(const NumberArray& array) {
  return array.shape().empty() ? std::vector<std::int64_t>{1} : array.shape();
}

// Of an input or a target: the shape of a single array, or the length of several, and their shapes.
template <typename ShapeOf>
void lay_out(const std::vector<Array>& arrays, const ShapeOf& shape_of,
             std::vector<std::int64_t>& shape, std::vector<std::vector<std::int64_t>>& parts) {
  shape = shape_of(*arrays.front());
  if (arrays.size() == 1) return;
  shape = {0};
  for (const auto& array : arrays) {
    shape[0] = checked_add(shape[0], numbers_in(*array));
    parts.push_back(shape_of(*array));
  }
}

// One after another.
void read_arrays(const std::vector<Array>& arrays, std::int64_t index, std::span<float> numbers) {
  for (const auto& array : arrays) {
    const auto count = static_cast<std::size_t>(numbers_in(*array));
    array->read(index, numbers.first(count));
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
  auto arrays = open_arrays(path, options);
  inputs_ = std::move(arrays.inputs);
  targets_ = std::move(arrays.targets);
  for (const auto* const others : {&inputs_, &targets_})
    for (const auto& other : *others) require_length(*inputs_.front(), *other);
  lay_out(inputs_, input_shape, layout_.input_shape, layout_.input_parts);
  if (arrays.labels)
    take_labels(*arrays.labels, options.classes);
  else
    lay_out(targets_, target_shape, layout_.target_shape, layout_.target_parts);
}

void ArraySamples::take_labels(const NumberArray& labels, std::optional<std::int64_t> classes) {
  require_length(*inputs_.front(), labels);
  if (!labels.is_whole() ||
      (labels.shape() != std::vector<std::int64_t>{1} && !labels.shape().empty())) {
    throw InputError(fmt::format(
        "data: {} holds [{}] {} per sample; labels are one whole number each, targets may be any "
        "numbers",
        labels.name(), fmt::join(labels.shape(), ", "),
        labels.is_whole() ? "whole numbers" : "floating-point numbers"));
  }
  labels_ = labels.read_whole_numbers();
  constexpr std::int64_t most_classes = 1000000000;
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    const auto least = std::int64_t{0}, end = classes.value_or(most_classes);
    if (labels_[i] >= least && labels_[i] < end) continue;
    throw InputError(fmt::format("data: {}: the label of sample {} is {}, expected 0 to {}",
                                 labels.name(), i, labels_[i], end - 1));
  }
  layout_.classes = classes.value_or(1 + *std::ranges::max_element(labels_));
}

std::int64_t ArraySamples::size() const {
  return inputs_.front()->size();
}

void ArraySamples::read(std::int64_t index, std::int64_t /*epoch*/,
                        const SamplePlace& place) const {
  check_read(index, place, static_cast<std::size_t>(layout_.input_size()),
             static_cast<std::size_t>(layout_.target_size()));
  read_arrays(inputs_, index, place.input);
  if (divisor_ != 1)
    for (float& number : place.input) number /= divisor_;
  read_arrays(targets_, index, place.target);
  if (!place.label.empty()) place.label[0] = labels_[static_cast<std::size_t>(index)];
}

bool holds_array_samples(const fs::path& path) {
  return fs::exists(path / "inputs.npy") || fs::is_directory(path / "inputs");
}

}  // namespace kolo
