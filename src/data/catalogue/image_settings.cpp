#include "data/catalogue/image_settings.h"

#include <array>

namespace kolo::datasets {

namespace {

// The mean and deviation of ImageNet's training images, as torchvision has them.
constexpr std::array<float, 3> imagenet_mean{.485F, .456F, .406F};
constexpr std::array<float, 3> imagenet_deviation{.229F, .224F, .225F};

void fill(std::optional<double>& value, double usual) {
  if (!value) value = usual;
}

}  // namespace

void ImageSettings::complete(double shift, double usual_zoom, NamedPreprocessing usual) {
  fill(height_shift, shift);
  fill(width_shift, shift);
  fill(zoom, usual_zoom);
  if (!horizontal_flip) horizontal_flip = true;
  if (preprocessing == NamedPreprocessing::automatic) preprocessing = usual;
}

AugmentationOptions ImageSettings::augmentation(const DatasetRequest& request) const {
  if (!augment || !request.varies) return {};
  AugmentationOptions options{.height_shift = height_shift.value(),
                              .width_shift = width_shift.value(),
                              .horizontal_flip = horizontal_flip.value()};
  if (*zoom > 0) options.set_zoom_range(*zoom);
  return options;
}

Preprocessing preprocessing_of(NamedPreprocessing name) {
  switch (name) {
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

}  // namespace kolo::datasets
