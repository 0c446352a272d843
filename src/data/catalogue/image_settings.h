#pragma once

#include <optional>

#include "data/catalogue/dataset_settings.h"
#include "kolo/data/augmentation.h"
#include "kolo/data/preprocessing.h"

// How images are varied and what becomes of their pixels.
namespace kolo::datasets {

struct ImageSettings {
  bool augment = true;  // vary training images; validation images never are
  // At most so much, as a fraction of the size, and between 1 - zoom and 1 + zoom, each axis;
  // unset: as the tutorials have it for the data.
  std::optional<double> height_shift, width_shift, zoom;
  std::optional<bool> horizontal_flip;
  NamedPreprocessing preprocessing = NamedPreprocessing::automatic;

  void complete(double shift, double usual_zoom, NamedPreprocessing usual);
  // How training images are varied.
  [[nodiscard]] AugmentationOptions augmentation(const DatasetRequest& request) const;
};

template <typename Field>
void visit_images(Field& field, ImageSettings& images) {
  const Unset unset{"as the tutorials have it for this data"};
  field("augment", images.augment, AnyBool{});
  field("height_shift", images.height_shift, fraction, unset);
  field("width_shift", images.width_shift, fraction, unset);
  field("zoom", images.zoom, fraction, unset);
  field("horizontal_flip", images.horizontal_flip, AnyBool{}, unset);
  field("preprocessing", images.preprocessing, AnyName{});
}

// Of pixels of 0..255.
[[nodiscard]] Preprocessing preprocessing_of(NamedPreprocessing name);

}  // namespace kolo::datasets
