#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kolo/base/error.h"
#include "kolo/data/augmentation.h"
#include "kolo/data/catalogue.h"
#include "settings/choice_reader.h"

// Helpers of the catalogue's entries. An entry is a struct of settings with a visit() for its keys,
//   Datasets make(const DatasetRequest& request) const;
//   SampleLayout layout(const DatasetRequest& request) const;    without reading samples
// and, where it needs them, check() and complete() (see set_settings) and
//   std::string samples() const;    their name, unless images
//   std::string needs_gpu() const;    reason why it needs one
//   PredictionInputs inputs(const SampleLayout&, const std::filesystem::path&) const;
namespace kolo::datasets {

template <ConfigStruct T>
[[nodiscard]] DatasetEntry entry_of(const std::string& name, const std::string& description,
                                    T defaults = {}) {
  DatasetEntry entry{{name, description}};
  set_settings<T>(entry, std::move(defaults));
  entry.make = [](const OwnSettings& own, const DatasetRequest& request) {
    return own.as<T>().make(request);
  };
  entry.layout = [](const OwnSettings& own, const DatasetRequest& request) {
    return own.as<T>().layout(request);
  };
  if constexpr (requires { &T::inputs; }) {
    entry.inputs = [](const OwnSettings& own, const SampleLayout& layout,
                      const std::filesystem::path& path) {
      return own.as<T>().inputs(layout, path);
    };
  }
  if constexpr (requires(const T& settings) { settings.needs_gpu(); })
    entry.needs_gpu = [](const OwnSettings& own) { return own.as<T>().needs_gpu(); };
  if constexpr (requires(const T& settings) { settings.samples(); })
    entry.samples = [](const OwnSettings& own) { return own.as<T>().samples(); };
  return entry;
}

// Calls `make`; its InputError gets the place and the name of the key that it is about.
template <typename Make>
auto at_key(const DatasetRequest& request, std::string_view key, const Make& make) {
  try {
    return make();
  } catch (const InputError& error) {
    request.refuse(key, error.what());
    throw;
  }
}

// The first samples, or evenly spread ones where they lie class by class, if fewer are asked for
// than there are.
[[nodiscard]] std::shared_ptr<const Dataset> first_of(const DatasetRequest& request, Split split,
                                                      std::shared_ptr<const Dataset> dataset,
                                                      bool is_spread = false);

struct SplitSamples {
  std::shared_ptr<const Dataset> training, validation;
  std::string note;  // for the log
};
// Training and validation samples out of one set of samples that lie class by class and end at
// `class_ends` (without names all are one class): every fifth of each class validates, beginning
// with the second, and the others train. `validation` reads the same samples as `training`.
// `ending`: of the keys train_... and valid_... Refuses a class of one sample.
[[nodiscard]] SplitSamples split_samples(const DatasetRequest& request, std::string_view ending,
                                         const std::shared_ptr<const Dataset>& training,
                                         const std::shared_ptr<const Dataset>& validation,
                                         std::span<const std::int64_t> class_ends,
                                         std::span<const std::string> class_names = {});

// Loads that two data sets need.
template <typename Data>
[[nodiscard]] std::vector<MemoryLoad> loads_of(const Data& training, const Data& validation) {
  std::vector<MemoryLoad> loads;
  for (const auto* const data : {&training, &validation})
    if (data->load()) loads.push_back(*data->load());
  return loads;
}

// Variation of images and preprocessing of their pixels.
struct ImageSettings {
  bool augment = true;  // vary training images; validation images never are
  // Greatest shifts, as fractions of the size, and zooms from 1 - zoom to 1 + zoom for each axis;
  // unset: what is usual for the data.
  std::optional<double> height_shift, width_shift, zoom;
  std::optional<bool> horizontal_flip;
  NamedPreprocessing preprocessing = NamedPreprocessing::automatic;

  void complete(double shift, double usual_zoom, NamedPreprocessing usual);
  // Variation of training images.
  [[nodiscard]] AugmentationOptions augmentation(const DatasetRequest& request) const;
};

template <typename Field>
void visit_variations(Field& field, ImageSettings& images) {
  const Unset unset{"what is usual for this data"};
  field("augment", images.augment, AnyBool{});
  field("height_shift", images.height_shift, fraction, unset);
  field("width_shift", images.width_shift, fraction, unset);
  field("zoom", images.zoom, fraction, unset);
  field("horizontal_flip", images.horizontal_flip, AnyBool{}, unset);
}

template <typename Field>
void visit_images(Field& field, ImageSettings& images) {
  visit_variations(field, images);
  field("preprocessing", images.preprocessing, AnyName{});
}

// Opens an image, or a folder of them, for a network that was trained on images of this layout.
[[nodiscard]] PredictionInputs image_inputs(const std::filesystem::path& path,
                                            const SampleLayout& layout,
                                            const AugmentationOptions& view,
                                            const Preprocessing& preprocessing);

// Preprocessing of pixels of 0..255.
[[nodiscard]] Preprocessing preprocessing_of(NamedPreprocessing name);

}  // namespace kolo::datasets
