#include <array>

#include <fmt/format.h>

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

SharedDataset subset_of(SharedDataset dataset, std::optional<std::int64_t> count, const char* key,
                        Subset::Choice choice = Subset::Choice::first) {
  if (!count || *count == dataset->size()) return dataset;
  if (*count > dataset->size()) {
    throw InputError(fmt::format("data.{}: {} samples asked for, but the data set has {}", key,
                                 *count, dataset->size()));
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
  return {subset_of(std::make_shared<MnistDataset>(folder, Split::train), config.data.n_train,
                    "n_train"),
          subset_of(std::make_shared<MnistDataset>(folder, Split::validation), config.data.n_valid,
                    "n_valid")};
}

// How training images are varied: as the tutorials do it for this data, but for what the
// configuration says.
AugmentationOptions augmentation_of(const DataConfig& data, AugmentationOptions options) {
  if (!data.augment) return {};
  if (data.height_shift) options.height_shift = *data.height_shift;
  if (data.width_shift) options.width_shift = *data.width_shift;
  if (data.zoom) options.set_zoom_range(*data.zoom);
  if (data.horizontal_flip) options.horizontal_flip = *data.horizontal_flip;
  return options;
}

// What a preprocessing of pixels of 0..255 is for those of 0..1.
Preprocessing for_unit_pixels(Preprocessing preprocessing) {
  for (float& mean : preprocessing.mean) mean /= 255;
  for (float& deviation : preprocessing.deviation) deviation /= 255;
  return preprocessing;
}

Preprocessing preprocessing_of(const std::string& name) {
  if (name == "none") return Preprocessing::none();
  if (name == "unit") return Preprocessing::unit();
  if (name == "caffe") return Preprocessing::caffe();
  return Preprocessing::mean_deviation(imagenet_mean, imagenet_deviation);
}

Datasets cifar10_datasets(const RunConfig& config) {
  const auto& data = config.data;
  const auto training = std::make_shared<Cifar10Dataset>(data.path, Split::train);
  const auto validation = std::make_shared<Cifar10Dataset>(data.path, Split::validation);
  const bool is_unit = data.preprocessing == "auto" || data.preprocessing == "unit";
  const auto preprocessing =
      is_unit ? Preprocessing::none() : for_unit_pixels(preprocessing_of(data.preprocessing));
  const auto varied =
      augmentation_of(data, {.height_shift = .1, .width_shift = .1, .horizontal_flip = true});
  return {std::make_shared<AugmentedDataset>(subset_of(training, data.n_train, "n_train"), varied,
                                             preprocessing, config.seed),
          std::make_shared<AugmentedDataset>(subset_of(validation, data.n_valid, "n_valid"),
                                             AugmentationOptions{}, preprocessing, config.seed),
          training->class_names()};
}

// The size that images are brought to: the model's input, or the data's, or ImageNet's usual one.
ImageFolderOptions folder_options(const RunConfig& config) {
  const auto& shape =
      config.model.input_shape.empty() ? config.data.input_shape : config.model.input_shape;
  if (shape.empty()) return {};
  if (shape.size() != 3 || shape[0] != 3) {
    throw InputError(
        "data imagenet: images are brought to input_shape, which must be three channels, a height "
        "and a width, for example [224, 224, 3]");
  }
  return {.height = shape[1], .width = shape[2]};
}

// Subsets are spread over the classes, as the samples lie class by class.
Datasets imagenet_datasets(const RunConfig& config) {
  const auto& data = config.data;
  const auto options = folder_options(config);
  const auto training = std::make_shared<ImageFolderDataset>(data.train_dir, options);
  const auto validation = std::make_shared<ImageFolderDataset>(data.valid_dir, options);
  require_same_classes(*training, *validation);
  const auto preprocessing =
      preprocessing_of(data.preprocessing == "auto" ? "caffe" : data.preprocessing);
  const auto varied = augmentation_of(data, {.height_shift = .33,
                                             .width_shift = .33,
                                             .zoom_low = .5,
                                             .zoom_high = 1.5,
                                             .horizontal_flip = true});
  const AugmentationOptions closer{.zoom_low = .875, .zoom_high = .875};
  constexpr auto spread = Subset::Choice::spread;
  return {std::make_shared<AugmentedDataset>(subset_of(training, data.n_train, "n_train", spread),
                                             varied, preprocessing, config.seed),
          std::make_shared<AugmentedDataset>(subset_of(validation, data.n_valid, "n_valid", spread),
                                             closer, preprocessing, config.seed),
          training->class_names()};
}

NbodyOptions box_options(const RunConfig& config) {
  const auto& data = config.data;
  NbodyOptions options;
  options.mode = data.mode == "lowmem"  ? BoxMode::lowmem
                 : data.mode == "inmem" ? BoxMode::inmem
                                        : BoxMode::synthetic;
  options.rotations = data.rotations == "none"       ? Rotations::none
                      : data.rotations == "tutorial" ? Rotations::tutorial
                      : data.rotations == "vector"   ? Rotations::vector
                                                     : Rotations::proper;
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
  auto training = std::make_shared<NbodyDataset>(options);
  if (has_files) options.file = config.data.valid_path;
  options.samples = config.data.n_valid.value();
  options.seed = config.seed + 1;
  options.varies_with_epoch = false;
  auto validation = std::make_shared<NbodyDataset>(options);
  auto warnings = training->warnings();
  warnings.insert(warnings.end(), validation->warnings().begin(), validation->warnings().end());
  return {std::move(training), std::move(validation), {}, std::move(warnings)};
}

}  // namespace

Datasets make_datasets(const RunConfig& config) {
  const auto& name = config.data.name;
  if (name == "dummy") return random_datasets(config);
  if (name == "cifar10") return cifar10_datasets(config);
  if (name == "imagenet") return imagenet_datasets(config);
  if (name == "nbody") return box_datasets(config);
  return mnist_datasets(config);
}

}  // namespace kolo
