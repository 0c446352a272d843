#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/at_setting.h"
#include "config/defaults.h"
#include "kolo/base/error.h"
#include "kolo/config/factories.h"
#include "kolo/data/augmentation.h"
#include "kolo/data/cifar10.h"
#include "kolo/data/image_folder.h"
#include "kolo/data/mnist.h"
#include "kolo/data/nbody.h"
#include "kolo/data/random_dataset.h"

namespace kolo {

namespace {

using SharedDataset = std::shared_ptr<const Dataset>;

// The mean and deviation of ImageNet's training images, as torchvision has them.
constexpr std::array<float, 3> imagenet_mean{.485F, .456F, .406F};
constexpr std::array<float, 3> imagenet_deviation{.229F, .224F, .225F};

// The first samples of one of the splits, or some of all classes.
SharedDataset subset_of(const RunConfig& config, SharedDataset dataset, std::string_view key,
                        Subset::Choice choice = Subset::Choice::first) {
  const auto& count = key == "data.n_train" ? config.data.n_train : config.data.n_valid;
  if (!count || *count == dataset->size()) return dataset;
  if (*count > dataset->size()) {
    refuse_setting(
        config, key,
        fmt::format("{} samples asked for, but the data set has {}", *count, dataset->size()));
  }
  return std::make_shared<Subset>(std::move(dataset), *count, choice);
}

// Unless the data says, there are as many labels as the network tells apart.
std::int64_t random_classes(const RunConfig& config) {
  if (config.data.n_classes) return *config.data.n_classes;
  const auto outputs = config.model.n_classes.value_or(10);
  return outputs == 1 ? 2 : outputs;
}

Datasets random_datasets(const RunConfig& config) {
  const auto& target_shape = config.data.target_shape;
  const SampleLayout layout{config.data.input_shape,
                            target_shape.empty() ? random_classes(config) : 0, target_shape};
  const auto training = config.data.n_train.value();
  const auto validation = config.data.n_valid.value_or(std::max<std::int64_t>(1, training / 8));
  return {std::make_shared<RandomDataset>(layout, training, config.seed),
          std::make_shared<RandomDataset>(layout, validation, config.seed + 1)};
}

Datasets mnist_datasets(const RunConfig& config) {
  const std::filesystem::path folder = config.data.path;
  const auto read = [&](Split split) {
    return at_setting(config, "data.path",
                      [&] { return std::make_shared<MnistDataset>(folder, split); });
  };
  return {subset_of(config, read(Split::train), "data.n_train"),
          subset_of(config, read(Split::validation), "data.n_valid")};
}

// How training images are varied.
AugmentationOptions augmentation_of(DataConfig data) {
  if (!data.augment) return {};
  fill_augmentation(data);
  AugmentationOptions options{.height_shift = data.height_shift.value(),
                              .width_shift = data.width_shift.value(),
                              .horizontal_flip = data.horizontal_flip.value()};
  if (*data.zoom > 0) options.set_zoom_range(*data.zoom);
  return options;
}

// What a preprocessing of pixels of 0..255 is for those of 0..1.
Preprocessing for_unit_pixels(Preprocessing preprocessing) {
  for (float& mean : preprocessing.mean) mean /= 255;
  for (float& deviation : preprocessing.deviation) deviation /= 255;
  return preprocessing;
}

// `usual` is what automatic stands for.
Preprocessing preprocessing_of(NamedPreprocessing name, NamedPreprocessing usual) {
  switch (name == NamedPreprocessing::automatic ? usual : name) {
    case NamedPreprocessing::unit:
      return Preprocessing::unit();
    case NamedPreprocessing::caffe:
      return Preprocessing::caffe();
    case NamedPreprocessing::imagenet:
      return Preprocessing::mean_deviation(imagenet_mean, imagenet_deviation);
    case NamedPreprocessing::none:
    case NamedPreprocessing::automatic:
      break;
  }
  return Preprocessing::none();
}

Datasets cifar10_datasets(const RunConfig& config) {
  const auto& data = config.data;
  const auto read = [&](Split split) {
    return at_setting(config, "data.path",
                      [&] { return std::make_shared<Cifar10Dataset>(data.path, split); });
  };
  const auto training = read(Split::train), validation = read(Split::validation);
  using enum NamedPreprocessing;
  const bool is_unit = data.preprocessing == automatic || data.preprocessing == unit;
  const auto preprocessing =
      is_unit ? Preprocessing::none() : for_unit_pixels(preprocessing_of(data.preprocessing, unit));
  const auto varied = augmentation_of(data);
  return {std::make_shared<AugmentedDataset>(subset_of(config, training, "data.n_train"), varied,
                                             preprocessing, config.seed),
          std::make_shared<AugmentedDataset>(subset_of(config, validation, "data.n_valid"),
                                             AugmentationOptions{}, preprocessing, config.seed),
          training->class_names()};
}

// The size that images are brought to: the model's input, or the data's, or ImageNet's usual one.
ImageFolderOptions folder_options(const RunConfig& config) {
  const auto& shape =
      config.model.input_shape.empty() ? config.data.input_shape : config.model.input_shape;
  if (shape.empty()) return {};
  if (shape.size() != 3 || shape[0] != 3) {
    refuse_setting(config,
                   config.model.input_shape.empty() ? "data.input_shape" : "model.input_shape",
                   "images are brought to this size, which must be three channels, a height and a "
                   "width, for example [224, 224, 3]");
  }
  return {.height = shape[1], .width = shape[2]};
}

// Subsets are spread over the classes, as the samples lie class by class.
Datasets imagenet_datasets(const RunConfig& config, bool looks_at_files) {
  const auto& data = config.data;
  auto options = folder_options(config);
  options.inspect_sizes = looks_at_files;
  const auto training = at_setting(config, "data.train_dir", [&] {
    return std::make_shared<ImageFolderDataset>(data.train_dir, options);
  });
  const auto validation = at_setting(config, "data.valid_dir", [&] {
    auto dataset = std::make_shared<ImageFolderDataset>(data.valid_dir, options);
    require_same_classes(*training, *dataset);
    return dataset;
  });
  const auto preprocessing = preprocessing_of(data.preprocessing, NamedPreprocessing::caffe);
  const auto varied = augmentation_of(data);
  const AugmentationOptions closer{.zoom_low = .875, .zoom_high = .875};
  constexpr auto spread = Subset::Choice::spread;
  return {std::make_shared<AugmentedDataset>(subset_of(config, training, "data.n_train", spread),
                                             varied, preprocessing, config.seed),
          std::make_shared<AugmentedDataset>(subset_of(config, validation, "data.n_valid", spread),
                                             closer, preprocessing, config.seed),
          training->class_names()};
}

NbodyOptions box_options(const RunConfig& config) {
  const auto& data = config.data;
  NbodyOptions options;
  options.mode = data.mode;
  options.rotations = data.rotations;
  options.box_size = data.box_size;
  options.crop = data.crop;
  options.seed = config.seed;
  return options;
}

// Validation crops are drawn and turned like the others, but the same in every epoch, so that
// epochs and runs compare.
Datasets box_datasets(const RunConfig& config) {
  auto options = box_options(config);
  const bool has_files = options.mode != BoxMode::synthetic;
  if (has_files) options.file = config.data.train_path;
  options.samples = config.data.n_train.value();
  const auto read = [&](std::string_view key) {
    return at_setting(config, key, [&] { return std::make_shared<NbodyDataset>(options); });
  };
  auto training = read(has_files ? "data.train_path" : "data.mode");
  if (has_files) options.file = config.data.valid_path;
  options.samples = config.data.n_valid.value();
  options.seed = config.seed + 1;
  options.varies_with_epoch = false;
  auto validation = read(has_files ? "data.valid_path" : "data.mode");
  auto warnings = training->warnings();
  warnings.insert(warnings.end(), validation->warnings().begin(), validation->warnings().end());
  return {std::move(training), std::move(validation), {}, std::move(warnings)};
}

// What is known without the data. How many classes folders of images have is not: as many as the
// network tells apart, or ImageNet's.
SampleLayout layout_of(const RunConfig& config) {
  const auto& name = config.data.name;
  constexpr std::int64_t imagenet_classes = 1000;
  if (name == "cifar10") return {{3, 32, 32}, 10, {}};
  if (name == "imagenet") {
    const auto options = folder_options(config);
    return {
        {3, options.height, options.width}, config.model.n_classes.value_or(imagenet_classes), {}};
  }
  return {{1, 28, 28}, 10, {}};
}

Datasets read_datasets(const RunConfig& config, bool looks_at_files) {
  const auto& name = config.data.name;
  if (name == "dummy") return random_datasets(config);
  if (name == "cifar10") return cifar10_datasets(config);
  if (name == "imagenet") return imagenet_datasets(config, looks_at_files);
  if (name == "nbody") return box_datasets(config);
  return mnist_datasets(config);
}

// A network that is made for training samples can't take others when it is validated.
void require_same_samples(const RunConfig& config, const Datasets& datasets) {
  const auto &training = datasets.training->layout(), &validation = datasets.validation->layout();
  const auto require = [&](const auto& expected, const auto& found, std::string_view what) {
    if (expected == found) return;
    const auto& name = config.data.name;
    const auto key = name == "nbody"      ? "data.valid_path"
                     : name == "imagenet" ? "data.valid_dir"
                                          : "data.path";
    refuse_setting(config, key,
                   fmt::format("the {} of validation samples is [{}], but [{}] in training; both "
                               "must be the same",
                               what, fmt::join(found, ", "), fmt::join(expected, ", ")));
  };
  require(training.input_shape, validation.input_shape, "shape");
  require(training.target_shape, validation.target_shape, "target's shape");
}

}  // namespace

Datasets make_synthetic_datasets(const RunConfig& config, std::int64_t least) {
  if (config.data.name == "dummy") return random_datasets(config);
  if (config.data.name == "nbody") {
    RunConfig synthetic = config;
    synthetic.data.mode = BoxMode::synthetic;
    synthetic.data.box_size = std::max(config.data.box_size, config.data.crop);
    return box_datasets(synthetic);
  }
  const auto layout = layout_of(config);
  return {std::make_shared<RandomDataset>(layout, std::max(least, config.data.n_train.value_or(1)),
                                          config.seed),
          std::make_shared<RandomDataset>(layout, 1, config.seed + 1)};
}

Datasets make_datasets(const RunConfig& config, bool looks_at_files) {
  auto datasets = read_datasets(config, looks_at_files);
  require_same_samples(config, datasets);
  return datasets;
}

}  // namespace kolo
