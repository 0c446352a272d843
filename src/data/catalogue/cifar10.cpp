#include "kolo/data/cifar10.h"

#include "data/catalogue/dataset_settings.h"

namespace kolo::datasets {

struct Cifar10 {
  std::string path = "data/cifar10";
  ImageSettings images;

  void complete() {
    if (path.empty()) path = "data/cifar10";
    images.complete(.1, 0, NamedPreprocessing::unit);
  }
  [[nodiscard]] Datasets make(const DatasetRequest& request) const;
  [[nodiscard]] PredictionInputs inputs(const SampleLayout& layout,
                                        const std::filesystem::path& input) const {
    return image_inputs(input, layout, {}, preprocessing_of(images.preprocessing));
  }
  [[nodiscard]] SampleLayout layout(const DatasetRequest&) const {
    return {{3, cifar10_side, cifar10_side}, cifar10_classes, {}};
  }
};

template <typename Field>
void visit(Field& field, Cifar10& cifar10) {
  field("path", cifar10.path, PathText{});
  visit_images(field, cifar10.images);
}

// Scales a preprocessing of pixels of 0..255 to those of 0..1.
static Preprocessing for_unit_pixels(Preprocessing preprocessing) {
  for (float& mean : preprocessing.mean) mean /= 255;
  for (float& deviation : preprocessing.deviation) deviation /= 255;
  return preprocessing;
}

Datasets Cifar10::make(const DatasetRequest& request) const {
  const auto read = [&](Split split) {
    return at_key(request, "path", [&] {
      return std::make_shared<Cifar10Dataset>(path, split, request.reading.loads_later);
    });
  };
  const auto training = read(Split::train), validation = read(Split::validation);
  const auto preprocessing = images.preprocessing == NamedPreprocessing::unit
                                 ? Preprocessing::none()
                                 : for_unit_pixels(preprocessing_of(images.preprocessing));
  const auto augmented = [&](Split split, const std::shared_ptr<const Dataset>& dataset,
                             const AugmentationOptions& augmentation) {
    return std::make_shared<AugmentedDataset>(first_of(request, split, dataset), augmentation,
                                              preprocessing, request.seed);
  };
  return {.training = augmented(Split::train, training, images.augmentation(request)),
          .validation = augmented(Split::validation, validation, {}),
          .class_names = training->class_names(),
          .loads = loads_of(*training, *validation)};
}

DatasetEntry cifar10() {
  return entry_of<Cifar10>("cifar10", "small photographs of ten kinds");
}

}  // namespace kolo::datasets
