#include "kolo/tools/first_configuration.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
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
#include "settings/value.h"

namespace kolo {

namespace {

namespace fs = std::filesystem;

struct DataParts {
  fs::path training, validation;  // validation: empty if there is none
};

// What the kinds of data differ in. Lines of the sections end in line breaks.
struct Draft {
  std::string seen;
  std::string data, model;
  std::string training;      // beyond batch, epochs and decay
  std::int64_t samples = 1;  // that train
  // Samples that a network of this kind sees in about a minute on two cores.
  std::int64_t samples_of_training = 20000;
};

bool is_found(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The first of these names that the folder has, as a folder, an HDF5 file or a box's .npy pair.
fs::path find_part(const fs::path& folder, std::initializer_list<const char*> names) {
  for (const auto* const name : names) {
    for (const auto* const ending : {"", ".h5", ".hdf5"})
      if (is_found(folder / (std::string(name) + ending)))
        return folder / (std::string(name) + ending);
    if (is_found(npy_data_file(folder / name))) return folder / name;
  }
  return {};
}

DataParts find_parts(const fs::path& data) {
  std::error_code error;
  if (!fs::is_directory(data, error)) return {data, {}};
  DataParts parts{find_part(data, {"train", "training"}),
                  find_part(data, {"valid", "val", "validation", "test"})};
  std::vector<fs::path> folders, files;
  for (const auto& entry : fs::directory_iterator(data)) {
    if (entry.path().filename().native().starts_with('.')) continue;
    if (entry.is_directory())
      folders.push_back(entry.path());
    else if (entry.path().extension() == ".h5" || entry.path().extension() == ".hdf5")
      files.push_back(entry.path());
  }
  if (parts.training.empty() && files.size() == 1 && folders.empty()) return {files.front(), {}};
  // A class of pictures may be called "train", too.
  const bool is_class = parts.validation.empty() && folders.size() > 1;
  return parts.training.empty() || is_class ? DataParts{data, {}} : parts;
}

std::string path_text(const fs::path& path) {
  const auto text = escape_path(path.native());
  const auto is_plain = [](unsigned char byte) {
    return std::isalnum(byte) != 0 ||
           std::string_view("_./-+").find(static_cast<char>(byte)) != std::string_view::npos;
  };
  return std::ranges::all_of(text, is_plain) ? text : nlohmann::json(text).dump();
}

// Lines for the data's places, under the keys that name them.
std::string lines_of(const DataParts& parts, std::string_view training_key,
                     std::string_view validation_key) {
  auto lines = fmt::format("  {}: {}\n", training_key, path_text(parts.training));
  lines += parts.validation.empty()
               ? fmt::format("  # {}: PATH           # without it every fifth sample validates\n",
                             validation_key)
               : fmt::format("  {}: {}\n", validation_key, path_text(parts.validation));
  return lines;
}

std::int64_t training_samples(std::int64_t all, const DataParts& parts) {
  return parts.validation.empty() ? all - (all + 3) / 5 : all;
}

Draft draft_images(const DataParts& parts, const nlohmann::ordered_json& found) {
  const auto& facts = found["facts"];
  const auto images = found["arrays"][0]["shape"][0].get<std::int64_t>();
  const auto range = [&](const char* key, std::size_t i) {
    return static_cast<std::int64_t>(facts[key][i].get<double>());
  };
  const auto largest = std::max(range("heights", 1), range("widths", 1));
  const auto side = std::clamp<std::int64_t>((largest + 7) / 8 * 8, 32, 64);
  Draft draft;
  draft.seen = fmt::format("{} images of {} classes, {} to {} pixels a side", format_count(images),
                           facts["images by class"].size(),
                           std::min(range("heights", 0), range("widths", 0)), largest);
  draft.samples = training_samples(images, parts);
  draft.data = "  name: imagenet                 # a folder of images for each class\n" +
               lines_of(parts, "train_dir", "valid_dir") +
               "  # horizontal_flip: false       # where left and right make a difference\n";
  draft.model = fmt::format(
      "  name: small_cnn                # resnet34 for tens of thousands of images\n"
      "  input_shape: [{0}, {0}, 3]       # what all images are brought to; more shows more\n",
      side);
  return draft;
}

Draft draft_mnist(const DataParts& parts, const nlohmann::ordered_json& found) {
  Draft draft;
  std::int64_t rows = 0, columns = 0;
  for (const auto& array : found["arrays"]) {
    const auto shape = array["shape"].get<std::vector<std::int64_t>>();
    if (shape.size() != 3 || shape[0] < draft.samples) continue;
    draft.samples = shape[0], rows = shape[1], columns = shape[2];
  }
  draft.seen = fmt::format("MNIST's format, {} training images of {} x {} pixels",
                           format_count(draft.samples), rows, columns);
  draft.data = "  name: mnist\n  path: " + path_text(parts.training) + "\n";
  draft.model = std::min(rows, columns) < 16
                    ? "  name: small_cnn\n"
                    : "  name: mnist_net                # small_cnn learns more, and slower\n";
  draft.samples_of_training = 300000;
  return draft;
}

Draft draft_cifar10(const DataParts& parts, const nlohmann::ordered_json& found) {
  Draft draft;
  draft.samples = found["arrays"][0]["shape"][0].get<std::int64_t>();
  draft.seen = fmt::format("CIFAR-10's format, {} training images of 32 x 32 pixels",
                           format_count(draft.samples));
  draft.data = "  name: cifar10\n  path: " + path_text(parts.training) + "\n";
  draft.model = "  name: small_cnn                # resnet_small learns more, and slower\n";
  return draft;
}

Draft draft_box(const DataParts& parts) {
  Draft draft;
  const auto validation = parts.validation.empty() ? parts.training : parts.validation;
  const auto size = std::min(BoxFile(parts.training).size(), BoxFile(validation).size());
  std::int64_t crop = 4, levels = 1;
  while (2 * crop <= std::min<std::int64_t>(size, 32)) crop *= 2, ++levels;
  draft.seen = fmt::format("a simulation box of {}^3 cells", size);
  draft.samples = 256;
  draft.samples_of_training = 1024;
  draft.data = fmt::format(
      "  name: nbody\n"
      "  train_path: {}\n"
      "  valid_path: {}{}\n"
      "  crop: {}                       # cells per edge of a sample\n"
      "  n_train: {}                   # crops per epoch\n"
      "  n_valid: 32\n",
      path_text(parts.training), path_text(validation),
      parts.validation.empty() ? "   # the same box: name another one to see what was learnt" : "",
      crop, draft.samples);
  draft.model = fmt::format(
      "  name: unet3d\n"
      "  levels: {}                      # how often the crop is halved\n"
      "  channels: 16                   # 64 in the tutorial\n",
      levels);
  draft.training = "  loss: l1\n";
  return draft;
}

// The first of the arrays, by the order of `names`, whose own name is one of these in any case.
std::string guess_array(std::span<const std::string> arrays,
                        std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    for (const auto& array : arrays) {
      const auto same = [](char a, char b) { return std::tolower(a) == b; };
      if (std::ranges::equal(array, name, same)) return array;
    }
  }
  return {};
}

// Largest size of the numbers in the first rows.
double largest_of(const ArrayFile& array) {
  constexpr std::int64_t most_rows = 1000;
  const auto rows = std::min(array.rows(), most_rows);
  std::vector<float> numbers(static_cast<std::size_t>(rows * array.row_numbers()));
  array.read(0, rows, std::span(numbers));
  float largest = 0;
  for (const float number : numbers)
    if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
  return largest;
}

// Whole numbers under a name of labels are classes; under another one if they are few.
bool is_labels(const NamedArray& array) {
  if (!array.array->is_whole() || array.array->row_numbers() != 1) return false;
  if (std::ranges::find(label_names, array.name) == label_names.end()) return false;
  return array.name.starts_with("label") || largest_of(*array.array) < 1000;
}

Draft draft_arrays(const DataParts& parts) {
  const ArrayCollection collection(parts.training);
  auto names = collection.names();
  auto target =
      guess_array(names, {"labels", "label", "targets", "target", "y", "outputs", "output"});
  auto input = guess_array(names, {"inputs", "input", "x", "images", "image", "features", "data"});
  if (names.size() == 2 && input.empty() != target.empty())
    (input.empty() ? input : target) = names[names[0] == (input.empty() ? target : input)];
  if (input.empty() || target.empty()) {
    throw InputError(fmt::format(
        "init: the names of the arrays in {} don't say which are inputs and which are targets: {}; "
        "rename them (inputs, and targets or labels), or write a configuration with data.inputs "
        "and data.targets",
        parts.training.string(), join(names)));
  }
  const auto inputs = collection.find(input), targets = collection.find(target);
  const bool classifies = is_labels(targets);
  const ArraySamples samples(
      parts.training, {.inputs = {input},
                       .targets = classifies ? std::vector<std::string>() : std::vector{target}});
  const auto& layout = samples.layout();
  Draft draft;
  draft.samples = training_samples(samples.size(), parts);
  draft.samples_of_training = 200000;
  draft.seen =
      fmt::format("{} samples: {} [{}] as input, {} as {}", format_count(samples.size()), input,
                  fmt::join(layout.input_shape, ", "), target,
                  classifies ? fmt::format("{} classes", layout.classes)
                             : fmt::format("target [{}]", fmt::join(layout.target_shape, ", ")));
  draft.data = "  name: arrays\n" + lines_of(parts, "train_path", "valid_path") +
               fmt::format("  inputs: [{}]                  # guessed by the names, which are {}\n",
                           input, join(names));
  if (!classifies) draft.data += fmt::format("  targets: [{}]\n", target);
  constexpr double large = 10;
  if (const auto most = std::ceil(largest_of(*inputs.array)); most > large) {
    draft.data += fmt::format("  divisor: {:<20} # brings inputs to about -1 to 1\n",
                              most > 127 && most <= 255 ? 255 : most);
  }
  if (const auto most = classifies ? 0 : largest_of(*targets.array); most > large) {
    draft.data += fmt::format(
        "  # Targets reach {:.4g}: divide them before, as networks learn best what is about 1.\n",
        most);
  }
  const auto& shape = layout.input_shape;
  if (classifies && shape.size() == 3 && std::min(shape[1], shape[2]) >= 8) {
    draft.model = "  name: small_cnn                # or cnn, mlp\n";
    draft.samples_of_training = 50000;
  } else {
    draft.model =
        "  name: mlp\n"
        "  hidden: [64, 64]               # wider or more for what is hard to learn\n";
  }
  draft.training = classifies ? "" : "  loss: mse                      # or l1\n";
  return draft;
}

Draft draft_of(const DataParts& parts) {
  const auto found = inspect(parts.training, false);
  const auto format = found["format"].get<std::string>();
  if (format == "folder of images") return draft_images(parts, found);
  if (format == "folder of IDX files") return draft_mnist(parts, found);
  if (format == "CIFAR-10, binary") return draft_cifar10(parts, found);
  if (format.starts_with("simulation box")) return draft_box(parts);
  if (format == "samples of arrays" || format == "folder of .npy arrays" || format == "HDF5 file")
    return draft_arrays(parts);
  throw InputError(fmt::format(
      "init: {} is of another kind ({}): expected a folder with a folder of images for each class, MNIST's or "
      "CIFAR-10's files, .npy arrays, or an HDF5 file",
      parts.training.string(), format));
}

}  // namespace

FirstConfiguration first_configuration(const fs::path& data, const std::string& file) {
  const auto draft = draft_of(find_parts(data));
  constexpr std::int64_t steps = 20;  // per epoch at least, on one rank
  std::int64_t batch = 32;
  while (batch > 4 && batch * steps > draft.samples) batch /= 2;
  const auto epochs = std::clamp<std::int64_t>(draft.samples_of_training / draft.samples, 5, 60);
  auto yaml = fmt::format(
      "# Written by kolo init from a look at {}: {}.\n"
      "#\n"
      "#   kolo train {} -n 2             trains on two ranks\n"
      "#   kolo train {} --show-config    lists all keys; docs/use/configuration.md explains them\n"
      "\n"
      "data:\n{}"
      "\n"
      "model:\n{}"
      "\n"
      "optimizer:\n"
      "  name: adam\n"
      "  lr: 0.001                      # for one rank; worth trying: 0.0003 and 0.003\n"
      "\n"
      "training:\n"
      "  batch_size: {:<18} # per rank\n"
      "  n_epochs: {:<20} # more, as long as the validation loss falls\n"
      "  lr_decay: cosine               # from lr to zero, over all epochs\n"
      "{}",
      data.string(), draft.seen, file, file, draft.data, draft.model, batch, epochs,
      draft.training);
  return {draft.seen, std::move(yaml)};
}

}  // namespace kolo
