#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "kolo/data/array_file.h"
#include "kolo/data/array_samples.h"
#include "kolo/data/box_files.h"
#include "kolo/tools/data_sets.h"
#include "kolo/train/observe/format.h"
#include "settings/section.h"
#include "settings/value.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

struct DataSplits {
  fs::path training, validation;  // validation: empty if there is none
};

// Differences between the kinds of data. Lines of sections end in line breaks.
struct Draft {
  std::string seen, data, model, training;  // training: beyond batch, epochs and decay
  double rate = .001;
  std::int64_t samples = 1;               // that train
  std::int64_t samples_a_minute = 16000;  // that such a network sees on two cores
};

// A line of a section, with its comment.
std::string line(const std::string& setting, std::string_view comment) {
  return fmt::format("  {:<30} # {}\n", setting, comment);
}

// The folder's first part of these names: a folder, an HDF5 file or a box's .npy pair.
fs::path find_split(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const auto* const name : names) {
    if (fs::exists(npy_data_file(folder / name))) return folder / name;
    for (const auto* const ending : {"", ".h5", ".hdf5"})
      if (auto split = folder / (std::string(name) + ending); fs::exists(split)) return split;
  }
  return {};
}

DataSplits find_splits(const fs::path& data) {
  DataSplits splits{find_split(data, {"train", "training"}),
                    find_split(data, {"valid", "val", "validation", "test"})};
  return splits.training.empty() ? DataSplits{data, {}} : splits;
}

// A path as YAML takes it.
std::string path_text(const fs::path& path) {
  const auto text = escape_path(path.native());
  const bool is_plain = std::ranges::all_of(text, [](unsigned char byte) {
    return std::isalnum(byte) != 0 ||
           std::string_view("_./-+").find(static_cast<char>(byte)) != std::string_view::npos;
  });
  return is_plain ? text : nlohmann::json(text).dump();
}

// Lines of the keys that end in _dir or _path.
std::string path_lines(const DataSplits& splits, std::string_view ending) {
  const auto training = fmt::format("  train_{}: {}\n", ending, path_text(splits.training));
  if (splits.validation.empty())
    return training +
           line(fmt::format("# valid_{}:", ending), "without it every fifth sample validates");
  return training + fmt::format("  valid_{}: {}\n", ending, path_text(splits.validation));
}

std::int64_t training_samples(std::int64_t all, const DataSplits& splits) {
  return splits.validation.empty() ? all - (all + 3) / 5 : all;
}

Draft draft_images(const DataSplits& splits, const nlohmann::ordered_json& found) {
  const auto& facts = found["facts"];
  const auto images = found["arrays"][0]["shape"][0].get<std::int64_t>();
  const auto heights = facts["heights"].get<std::vector<std::int64_t>>(),
             widths = facts["widths"].get<std::vector<std::int64_t>>();
  const auto least = std::min(heights[0], widths[0]), most = std::max(heights[1], widths[1]);
  const auto side = std::clamp<std::int64_t>((most + 7) / 8 * 8, 32, 64);
  return {.seen = fmt::format("{} images of {} classes, {}{} pixels", format_count(images),
                              facts["images by class"].size(),
                              least < most ? fmt::format("{} to ", least) : "", most),
          .data = line("name: imagenet", "a folder of images for each class") +
                  path_lines(splits, "dir") +
                  line("# horizontal_flip: false", "where left and right make a difference"),
          .model = line("name: small_cnn", "resnet34 for tens of thousands of images") +
                   line(fmt::format("input_shape: [{0}, {0}, 3]", side),
                        "what all images are brought to"),
          .rate = .003,
          .samples = training_samples(images, splits)};
}

// MNIST's or CIFAR-10's files.
Draft draft_known(const DataSplits& splits, const nlohmann::ordered_json& found, bool is_mnist) {
  std::int64_t images = 1;
  for (const auto& array : found["arrays"])
    if (array["name"].get<std::string>().starts_with("train")) images = array["shape"][0];
  return {.seen = fmt::format("{}'s format, {} training images", is_mnist ? "MNIST" : "CIFAR-10",
                              format_count(images)),
          .data = fmt::format("  name: {}\n  path: {}\n", is_mnist ? "mnist" : "cifar10",
                              path_text(splits.training)),
          .model = line("name: small_cnn", is_mnist ? "mnist_net is quicker" : "or resnet_small"),
          .samples = images,
          .samples_a_minute = 100000};
}

Draft draft_box(const DataSplits& splits) {
  const auto validation = splits.validation.empty() ? splits.training : splits.validation;
  const auto size = std::min(BoxFile(splits.training).size(), BoxFile(validation).size());
  std::int64_t crop = 4, levels = 1;
  for (; 2 * crop <= std::min<std::int64_t>(size, 32); crop *= 2) ++levels;
  return {
      .seen = fmt::format("simulation box of {}^3 cells", size),
      .data = fmt::format("  name: nbody\n  train_path: {}\n", path_text(splits.training)) +
              line("valid_path: " + path_text(validation),
                   splits.validation.empty() ? "better another box" : "not the one that trains") +
              line(fmt::format("crop: {}", crop), "cells per edge of a sample") +
              line("n_train: 256", "crops per epoch") + "  n_valid: 32\n",
      .model = "  name: unet3d\n" +
               line(fmt::format("levels: {}", levels), "how often the crop is halved") +
               line("channels: 16", "64 in NERSC's tutorial"),
      .training = "  loss: l1\n",
      .samples = 256,
      .samples_a_minute = 3000};
}

// The first of the names that an array has, in any case.
std::string guess_array(std::span<const std::string> arrays,
                        std::initializer_list<std::string_view> names) {
  for (const auto name : names)
    for (const auto& array : arrays)
      if (lower_case(array) == name) return array;
  return {};
}

// Largest size of the numbers in the first rows.
double largest_of(const ArrayFile& array) {
  constexpr std::int64_t most_numbers = 1 << 22;
  const auto of_row = std::max<std::int64_t>(1, array.row_numbers());
  const auto rows = std::min(array.rows(), std::max<std::int64_t>(1, most_numbers / of_row));
  std::vector<double> numbers(static_cast<std::size_t>(rows * array.row_numbers()));
  array.read(0, rows, std::span(numbers));
  double largest = 0;
  for (const double number : numbers)
    if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
  return largest;
}

Draft draft_arrays(const DataSplits& splits) {
  const ArrayCollection collection(splits.training);
  const auto names = collection.names();
  const auto input = guess_array(names, {"inputs", "input", "x", "images", "image", "features"});
  const auto target =
      guess_array(names, {"labels", "targets", "target", "label", "y", "outputs", "output"});
  if (input.empty() || target.empty()) {
    throw InputError(fmt::format(
        "init: {} has the arrays {}, whose names don't say which are inputs and which targets; "
        "rename them (inputs, and targets or labels), or name them in data.inputs and data.targets",
        splits.training.string(), join(names)));
  }
  const auto inputs = collection.find(input), targets = collection.find(target);
  constexpr double most_classes = 1000;
  const bool has_classes = std::ranges::find(label_names, target) != label_names.end() &&
                           targets.array->is_whole() && targets.array->row_numbers() == 1 &&
                           largest_of(*targets.array) < most_classes;
  std::vector<std::string> numbers;
  if (!has_classes) numbers.push_back(target);
  const ArraySamples samples(splits.training, {.inputs = {input}, .targets = numbers});
  const auto& layout = samples.layout();
  const auto& shape = layout.input_shape;
  const bool is_image = has_classes && shape.size() == 3 && std::min(shape[1], shape[2]) >= 8;
  auto data = "  name: arrays\n" + path_lines(splits, "path") +
              line(fmt::format("inputs: [{}]", input),
                   fmt::format("guessed, as the targets, of {}", join(names)));
  if (!has_classes) data += fmt::format("  targets: [{}]\n", target);
  constexpr double large = 10;
  if (const auto most = largest_of(*inputs.array); most > large) {
    const bool are_bytes = inputs.array->is_whole() && most > 127 && most <= 255;
    data += line(fmt::format("divisor: {}", are_bytes ? 255 : std::ceil(most)),
                 "brings inputs to about -1 to 1");
  }
  if (const auto most = has_classes ? 0 : largest_of(*targets.array); most > large)
    data += fmt::format("  # Targets reach {:.4g}: networks learn best what is about 1.\n", most);
  return {.seen = fmt::format("{} samples, {} [{}] as input, {} as {}",
                              format_count(samples.size()), input, fmt::join(shape, ", "), target,
                              has_classes ? fmt::format("{} classes", layout.classes) : "target"),
          .data = std::move(data),
          .model = is_image ? line("name: small_cnn", "or cnn, mlp")
                            : "  name: mlp\n" + line("hidden: [64, 64]", "more for what is hard"),
          .training = has_classes ? "" : line("loss: mse", "or l1"),
          .rate = is_image ? .001 : .003,
          .samples = training_samples(samples.size(), splits),
          .samples_a_minute = is_image ? 50000 : 200000};
}

Draft draft_of(const DataSplits& splits) {
  if (fs::is_directory(splits.training) && !ArrayCollection(splits.training).names().empty())
    return draft_arrays(splits);
  const auto found = inspect(splits.training, false);
  const auto format = found["format"].get<std::string>();
  if (format == data_formats::image_folder) return draft_images(splits, found);
  if (format == data_formats::idx_folder) return draft_known(splits, found, true);
  if (format == data_formats::cifar10) return draft_known(splits, found, false);
  if (format.starts_with(data_formats::box)) return draft_box(splits);
  if (format == data_formats::samples || format == data_formats::hdf5) return draft_arrays(splits);
  throw InputError(fmt::format(
      "init: {} is of another kind ({}): expected a folder with a folder of images for each class, "
      "MNIST's or CIFAR-10's files, .npy arrays, or an HDF5 file",
      splits.training.string(), format));
}

}  // namespace

FirstConfiguration first_configuration(const fs::path& data, const std::string& file) {
  const auto draft = draft_of(find_splits(data));
  constexpr std::int64_t steps = 20;  // per epoch at least, on one rank
  std::int64_t batch = 32;
  while (batch > 4 && batch * steps > draft.samples) batch /= 2;
  const auto epochs = std::clamp<std::int64_t>(draft.samples_a_minute / draft.samples, 5, 125);
  auto yaml = fmt::format(
      "# Written by kolo init after a look at {}: {}.\n#\n"
      "#   kolo train {} -n 2             trains on two ranks\n"
      "#   kolo train {} --show-config    shows all keys and their values\n\n"
      "data:\n{}\nmodel:\n{}\noptimizer:\n  name: adam\n{}\ntraining:\n",
      escape_path(data.native()), draft.seen, file, file, draft.data, draft.model,
      line(fmt::format("lr: {}", draft.rate), "for one rank; try a third and three times as much"));
  yaml += line(fmt::format("batch_size: {}", batch), "per rank") +
          line(fmt::format("n_epochs: {}", epochs), "more, while the validation loss still falls") +
          line("lr_decay: cosine", "from lr to zero, over all epochs") + draft.training;
  return {draft.seen, std::move(yaml)};
}

}  // namespace kolo
