#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/natural_order.h"
#include "data/catalogue/dataset_settings.h"
#include "kolo/data/image_folder.h"

namespace kolo::datasets {

struct Imagenet {
  std::string train_dir, valid_dir;       // a folder of images for each class
  std::vector<std::int64_t> input_shape;  // what images are brought to, unless the model says
  ImageSettings images;

  void check(const RefuseKey& refuse) const;
  void complete() {
    put_channels_first(input_shape);
    images.complete(.33, .5, NamedPreprocessing::caffe);
  }
  [[nodiscard]] Datasets make(const DatasetRequest& request) const;
  [[nodiscard]] SampleLayout layout(const DatasetRequest& request) const;

 private:
  [[nodiscard]] ImageFolderOptions folder_options(const DatasetRequest& request) const;
};

template <typename Field>
void visit(Field& field, Imagenet& imagenet) {
  field("train_dir", imagenet.train_dir, PathText{});
  field("valid_dir", imagenet.valid_dir, PathText{});
  field("input_shape", imagenet.input_shape, positive.up_to(most_of_a_kind));
  visit_images(field, imagenet.images);
}

void Imagenet::check(const RefuseKey& refuse) const {
  if (train_dir.empty()) {
    refuse("train_dir",
           "data imagenet needs the folder that holds one folder a class; kolo data images --from "
           "fashion-mnist -o data/images makes data/images/train");
  }
  if (valid_dir.empty()) {
    refuse("valid_dir",
           "data imagenet needs the folder of the validation images, for example "
           "data/images/valid of kolo data images");
  }
  check_shape(refuse, "input_shape", input_shape);
  images.check(refuse);
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
  auto augmentation = images.augmentation(request);
  const double random_crop = std::exchange(augmentation.random_crop, 0);  // done while decoding
  const auto training = at_key(request, "train_dir", [&] {
    auto cropped = options;
    cropped.random_crop = random_crop;
    cropped.seed = request.seed;
    return std::make_shared<ImageFolderDataset>(train_dir, cropped, request.looks_at_files);
  });
  const auto validation = at_key(request, "valid_dir", [&] {
    auto dataset = std::make_shared<ImageFolderDataset>(valid_dir, options, request.looks_at_files);
    require_same_classes(*training, *dataset);
    return dataset;
  });
  const auto preprocessing = preprocessing_of(images.preprocessing);
  const AugmentationOptions closer{.zoom_low = .875, .zoom_high = .875};
  constexpr auto spread = Subset::Choice::spread;
  std::vector<std::string> warnings;
  if (const auto pair = find_names_out_of_bytes_order(training->class_names())) {
    warnings.push_back(fmt::format(
        "data: classes are numbered in the natural order of their folders' names: {} before {}; "
        "where they are sorted letter by letter, as torchvision does, it is the other way round",
        pair->first, pair->second));
  }
  for (const auto* const dataset : {training.get(), validation.get()}) {
    const auto left_out = left_out_text(dataset->listing());
    if (!left_out.empty())
      warnings.push_back(fmt::format("data: {}: {}", dataset->root().string(), left_out));
  }
  return {
      std::make_shared<AugmentedDataset>(first_of(request, Split::train, training, spread),
                                         augmentation, preprocessing, request.seed),
      std::make_shared<AugmentedDataset>(first_of(request, Split::validation, validation, spread),
                                         closer, preprocessing, request.seed),
      training->class_names(), std::move(warnings)};
}

// How many classes the folders have is not known without them: as many as the network tells apart,
// or ImageNet's.
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
