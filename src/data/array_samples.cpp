#include "kolo/data/array_samples.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/boxes/number_array.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

// The arrays of one path; some may be missing.
struct Arrays {
  std::shared_ptr<const NumberArray> inputs, targets, labels;
};

std::vector<fs::path> npy_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".npy") files.push_back(entry.path());
  std::ranges::sort(files, {}, [](const fs::path& file) { return file.native(); });
  return files;
}

// NAME.npy, or the files of the folder NAME; null where neither is there.
std::shared_ptr<const NumberArray> find_npy(const fs::path& folder, const std::string& name) {
  if (const auto file = folder / (name + ".npy"); fs::exists(file)) return open_npy_array(file);
  const auto files = folder / name;
  return fs::is_directory(files) ? open_npy_files(files.string(), npy_files_in(files)) : nullptr;
}

// Samples of files belong together by their names.
void require_same_names(const fs::path& folder) {
  const auto inputs = folder / "inputs", targets = folder / "targets";
  if (!fs::is_directory(inputs) || !fs::is_directory(targets)) return;
  const auto of_inputs = npy_files_in(inputs), of_targets = npy_files_in(targets);
  for (std::size_t i = 0; i < std::min(of_inputs.size(), of_targets.size()); ++i) {
    if (of_inputs[i].filename() == of_targets[i].filename()) continue;
    throw InputError(
        fmt::format("data: the files of {} and {} must have the same names; the first that differ "
                    "are {} and {}",
                    inputs.string(), targets.string(), of_inputs[i].filename().string(),
                    of_targets[i].filename().string()));
  }
}

Arrays open_arrays(const fs::path& path) {
  if (!fs::exists(path)) throw InputError(fmt::format("data: {} does not exist", path.string()));
  if (fs::is_directory(path)) {
    require_same_names(path);
    return {find_npy(path, "inputs"), find_npy(path, "targets"), find_npy(path, "labels")};
  }
  return {open_hdf5_array(path, "inputs"), open_hdf5_array(path, "targets"),
          open_hdf5_array(path, "labels")};
}

void require_arrays(const Arrays& arrays, const fs::path& path) {
  const auto refuse = [&](std::string_view found) {
    throw InputError(fmt::format(
        "data: {} {}; expected inputs, and either targets (numbers) or labels (classes): {}",
        path.string(), found,
        fs::is_directory(path) ? "arrays such as inputs.npy, with samples in front, or folders "
                                 "such as inputs/ with a .npy file per sample"
                               : "HDF5 datasets, with samples in front"));
  };
  if (!arrays.inputs) refuse("has no inputs");
  if (!arrays.targets && !arrays.labels) refuse("has neither targets nor labels");
  if (arrays.targets && arrays.labels) refuse("has both targets and labels");
}

void require_length(const NumberArray& inputs, const NumberArray& others) {
  if (inputs.size() == others.size()) return;
  throw InputError(fmt::format("data: {} has {} samples, but {} has {}", inputs.name(),
                               inputs.size(), others.name(), others.size()));
}

}  // namespace

ArraySamples::ArraySamples(const fs::path& path, const ArraySamplesOptions& options)
    : divisor_(static_cast<float>(options.divisor)) {
  if (!(options.divisor > 0) || !std::isfinite(options.divisor)) {
    throw InputError(
        fmt::format("data: inputs divided by {}; expected a number above 0", options.divisor));
  }
  auto arrays = open_arrays(path);
  require_arrays(arrays, path);
  inputs_ = arrays.inputs;
  layout_.input_shape = inputs_->shape();
  if (layout_.input_shape.empty()) layout_.input_shape = {1};
  if (layout_.input_shape.size() == 2) layout_.input_shape.insert(layout_.input_shape.begin(), 1);
  if (arrays.labels)
    take_labels(*arrays.labels, options.classes);
  else
    take_targets(std::move(arrays.targets));
}

void ArraySamples::take_targets(std::shared_ptr<const NumberArray> targets) {
  require_length(*inputs_, *targets);
  layout_.target_shape = targets->shape();
  if (layout_.target_shape.empty()) layout_.target_shape = {1};
  targets_ = std::move(targets);
}

void ArraySamples::take_labels(const NumberArray& labels, std::optional<std::int64_t> classes) {
  require_length(*inputs_, labels);
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
  return inputs_->size();
}

void ArraySamples::read(std::int64_t index, std::int64_t /*epoch*/,
                        const SamplePlace& place) const {
  check_read(index, place, static_cast<std::size_t>(layout_.input_size()),
             static_cast<std::size_t>(layout_.target_size()));
  inputs_->read(index, place.input);
  if (divisor_ != 1)
    for (float& number : place.input) number /= divisor_;
  if (targets_)
    targets_->read(index, place.target);
  else
    place.label[0] = labels_[static_cast<std::size_t>(index)];
}

bool holds_array_samples(const fs::path& path) {
  return fs::exists(path / "inputs.npy") || fs::is_directory(path / "inputs");
}

}  // namespace kolo
