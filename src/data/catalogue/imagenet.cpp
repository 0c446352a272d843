#include "kolo/data/image_folder.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "data/catalogue/dataset_settings.h"
#include "kolo/base/error.h"
#include "kolo/base/text.h"

namespace kolo {

namespace {

void check_options(const ImageFolderOptions& options) {
  constexpr std::int64_t most_side = 16384;
  for (const auto& [name, side] : {std::pair{"height", options.height}, {"width", options.width}}) {
    if (side < 1 || side > most_side) {
      throw InputError(
          fmt::format("data: the {} of images is {}, expected 1 to {}", name, side, most_side));
    }
  }
}

// Brightness of planes of red, green and blue (ITU-R BT.601); of grey ones the same to the bit.
void mix_grey(std::span<const float> colours, std::span<float> grey) {
  const auto pixels = grey.size();
  for (std::size_t i = 0; i < pixels; ++i) {
    const float red = colours[i], green = colours[pixels + i], blue = colours[2 * pixels + i];
    grey[i] = red + .587F * (green - red) + .114F * (blue - red);
  }
}

std::vector<std::string> missing_from(const std::vector<std::string>& some,
                                      const std::vector<std::string>& others) {
  std::vector<std::string> missing;
  std::ranges::set_difference(others, some, std::back_inserter(missing), comes_before);
  return missing;
}

}  // namespace

ImageFolderDataset::ImageFolderDataset(std::filesystem::path root, FolderListing listing,
                                       ImageFolderOptions options)
    : root_(std::move(root)), options_(options), listing_(std::move(listing)) {
  check_options(options_);
  layout_.input_shape = {options_.is_grey ? 1 : 3, options_.height, options_.width};
  layout_.classes = static_cast<std::int64_t>(listing_.classes.size());
}

ImageFolderDataset::ImageFolderDataset(const std::filesystem::path& root,
                                       ImageFolderOptions options, bool inspect_sizes)
    : ImageFolderDataset(root, list_image_folder(root, inspect_sizes), options) {}

ImageFolderDataset ImageFolderDataset::without_classes(const std::filesystem::path& path,
                                                       ImageFolderOptions options) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  return {is_folder ? path : path.parent_path(), list_images(path), options};
}

std::filesystem::path ImageFolderDataset::path(std::int64_t index) const {
  return root_ / listing_.classes[static_cast<std::size_t>(label(index))] / listing_.name(index);
}

void ImageFolderDataset::read(std::int64_t index, std::int64_t epoch,
                              const SampleSpans& place) const {
  check_read(index, place, static_cast<std::size_t>(layout_.input_size()), 1);
  const auto file = path(index);
  static thread_local std::vector<std::byte> bytes;  // kept from image to image
  static thread_local std::vector<float> colours;
  read_image_file(file, bytes);
  ImageWindow part;
  if (options_.random_crop > 0) {
    const auto [height, width] = image_size(bytes, file.native());
    part = draw_random_crop(options_.random_crop, options_.seed, epoch, index, height, width);
  }
  if (options_.is_grey) colours.resize(3 * place.input.size());
  decode_resized(bytes, file.native(), options_.height, options_.width,
                 options_.is_grey ? std::span(colours) : place.input, part);
  if (options_.is_grey) mix_grey(colours, place.input);
  place.label[0] = label(index);
}

void require_same_classes(const ImageFolderDataset& training,
                          const ImageFolderDataset& validation) {
  const auto check = [](const ImageFolderDataset& some, const ImageFolderDataset& others) {
    const auto missing = missing_from(some.class_names(), others.class_names());
    if (missing.empty()) return;
    throw InputError(fmt::format(
        "data: training and validation images must have the same classes: {} has no folder {}, "
        "which {} has",
        some.root().string(), join_first(missing), others.root().string()));
  };
  check(training, validation);
  check(validation, training);
}

}  // namespace kolo

namespace kolo::datasets {

struct Imagenet {
  // Folders with a folder of images for each class; without valid_dir every fifth image validates.
  std::string train_dir, valid_dir;
  std::vector<std::int64_t> input_shape;  // what images are brought to, unless the model says
  ImageSettings images;
  // Above 0: parts of images of at least so much of their area, instead of shifts and zooms.
  double random_crop = 0;

  void check(const RefuseKey& refuse) const;
  void complete() {
    put_channels_first(input_shape);
    const double variation = random_crop > 0 ? 0 : .1;
    images.complete(variation, variation, NamedPreprocessing::unit);
  }
  [[nodiscard]] Datasets make(const DatasetRequest& request) const;
  [[nodiscard]] SampleLayout layout(const DatasetRequest& request) const;
  [[nodiscard]] PredictionInputs inputs(const SampleLayout& layout,
                                        const std::filesystem::path& path) const {
    return image_inputs(path, layout, view(), preprocessing_of(images.preprocessing));
  }

 private:
  // View of images that aren't varied: magnified, as the tutorials have it, for crops and for their
  // zoom of .5; as they are where training images aren't varied, so that both look alike.
  [[nodiscard]] AugmentationOptions view() const {
    if (!images.augment) return {};
    const double zoom = random_crop > 0 ? .875 : 1 - images.zoom.value() / 4;
    return {.zoom_low = zoom, .zoom_high = zoom};
  }
  [[nodiscard]] ImageFolderOptions folder_options(const DatasetRequest& request) const;
};

template <typename Field>
void visit(Field& field, Imagenet& imagenet) {
  field("train_dir", imagenet.train_dir, PathText{});
  field("valid_dir", imagenet.valid_dir, PathText{});
  field("input_shape", imagenet.input_shape, positive.up_to(most_of_a_kind));
  visit_images(field, imagenet.images);
  field("random_crop", imagenet.random_crop,
        NumberRule{" from 0 to 1", [](long double x) { return x >= 0 && x <= 1; }});
}

void Imagenet::check(const RefuseKey& refuse) const {
  if (train_dir.empty()) {
    refuse("train_dir",
           "data imagenet needs the folder that holds one folder a class; kolo data images --from "
           "fashion-mnist -o data/images makes data/images/train");
  }
  check_shape(refuse, "input_shape", input_shape);
  const std::pair<std::string_view, const std::optional<double>*> others[] = {
      {"height_shift", &images.height_shift},
      {"width_shift", &images.width_shift},
      {"zoom", &images.zoom}};
  for (const auto& [key, value] : others) {
    if (random_crop > 0 && value->value_or(0) > 0) {
      refuse(key, fmt::format("random_crop: {} chooses a part of each image, which takes the place "
                              "of shifts and zooms; leave out one of the two",
                              random_crop));
    }
  }
}

// The size that images are brought to: the model's input, or the data's, or ImageNet's usual one.
ImageFolderOptions Imagenet::folder_options(const DatasetRequest& request) const {
  const bool is_of_model = !request.model_shape.empty();
  const auto& shape = is_of_model ? request.model_shape : input_shape;
  if (shape.empty()) return {};
  if (shape.size() != 3 || shape[0] != 3) {
    (is_of_model ? request.refuse_of_model : request.refuse)(
        "input_shape",
        "images are brought to this size, which must be three channels, a height and a width, for "
        "example [224, 224, 3]");
  }
  return {.height = shape[1], .width = shape[2]};
}

// Subsets are spread over the classes, as the samples lie class by class.
Datasets Imagenet::make(const DatasetRequest& request) const {
  const auto options = folder_options(request);
  auto cropped = options;
  if (images.augment && request.reading.varies) cropped.random_crop = random_crop;
  cropped.seed = request.seed;
  const auto list = [&](std::string_view key, const std::string& folder,
                        const ImageFolderOptions& how) {
    return at_key(request, key, [&] {
      return std::make_shared<const ImageFolderDataset>(folder, how,
                                                        request.reading.looks_at_files);
    });
  };
  const auto training = list("train_dir", train_dir, cropped);
  std::vector folders{training};
  SplitSamples samples;
  if (valid_dir.empty()) {
    const auto same = random_crop > 0 ? list("train_dir", train_dir, options) : training;
    samples = split_samples(request, "dir", training, same, training->listing().class_ends,
                            training->class_names());
  } else {
    folders.push_back(list("valid_dir", valid_dir, options));
    at_key(request, "valid_dir", [&] { require_same_classes(*training, *folders.back()); });
    samples = {training, folders.back(), {}};
  }
  const auto preprocessing = preprocessing_of(images.preprocessing);
  std::vector<std::string> warnings;
  if (const auto pair = find_names_out_of_bytes_order(training->class_names())) {
    warnings.push_back(fmt::format(
        "data: classes are numbered in the natural order of their folders' names: {} before {}; "
        "where they are sorted letter by letter, as torchvision does, it is the other way round",
        pair->first, pair->second));
  }
  for (const auto& folder : folders) {
    const auto left_out = left_out_text(folder->listing());
    if (!left_out.empty())
      warnings.push_back(fmt::format("data: {}: {}", folder->root().string(), left_out));
  }
  const auto augmented = [&](Split split, const std::shared_ptr<const Dataset>& dataset,
                             const AugmentationOptions& augmentation) {
    return std::make_shared<AugmentedDataset>(first_of(request, split, dataset, true), augmentation,
                                              preprocessing, request.seed);
  };
  const auto variation = request.reading.varies ? images.augmentation(request) : view();
  return {.training = augmented(Split::train, samples.training, variation),
          .validation = augmented(Split::validation, samples.validation, view()),
          .class_names = training->class_names(),
          .warnings = std::move(warnings),
          .note_of_split = samples.note};
}

// Layout without the folders: as many classes as the network tells apart, or ImageNet's.
SampleLayout Imagenet::layout(const DatasetRequest& request) const {
  constexpr std::int64_t usual_classes = 1000;
  const auto options = folder_options(request);
  return {{3, options.height, options.width}, request.model_classes.value_or(usual_classes), {}};
}

DatasetEntry imagenet() {
  auto entry = entry_of<Imagenet>("imagenet", "folders of images, one for each class");
  entry.validation_key = "valid_dir";
  return entry;
}

}  // namespace kolo::datasets
