#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kolo/base/enum_names.h"
#include "kolo/data/dataset.h"
#include "kolo/data/image.h"

// Transforms of images, preprocessing of their pixels, and a data set that varies images at random.
namespace kolo {

// Preprocessing of pixels of 0..255 after augmentation: channel c of the result is (pixel -
// mean[c]) / deviation[c]. One number stands for all channels.
struct Preprocessing {
  std::vector<float> mean = {0};
  std::vector<float> deviation = {1};  // positive
  bool blue_first = false;  // channels in the order blue, green, red, which is that of mean too

  // Pixels as they are, 0..255.
  [[nodiscard]] static Preprocessing none() { return {}; }
  // 0..1: pixel / 255.
  [[nodiscard]] static Preprocessing unit() { return {{0}, {255}, false}; }
  // Keras's resnet50.preprocess_input ("caffe"): blue, green, red, each minus ImageNet's mean.
  [[nodiscard]] static Preprocessing caffe() { return {{103.939F, 116.779F, 123.68F}, {1}, true}; }
  // (pixel / 255 - mean) / deviation, as torchvision has it; mean and deviation in units of 0..1.
  [[nodiscard]] static Preprocessing mean_deviation(std::array<float, 3> mean,
                                                    std::array<float, 3> deviation);

  // InputError unless it is for images of so many channels: one number or one a channel, blue_first
  // with 3 channels only.
  void check(std::int64_t channels) const;
};

// Preprocessings by name; `automatic` is the data set's usual one.
enum class NamedPreprocessing : std::uint8_t { automatic, none, unit, caffe, imagenet };

constexpr auto enum_names(NamedPreprocessing) {
  return std::to_array<EnumName<NamedPreprocessing>>({{NamedPreprocessing::automatic, "auto"},
                                                      {NamedPreprocessing::none, "none"},
                                                      {NamedPreprocessing::unit, "unit"},
                                                      {NamedPreprocessing::caffe, "caffe"},
                                                      {NamedPreprocessing::imagenet, "imagenet"}});
}

// Transform of an image, as a map from the result to the source: with c = (size - 1) / 2 along each
// axis, the middle of the image, the result at y, x is the source at
//   zoom_y (y - c_y) + c_y + shift_y,  zoom_x (x - c_x) + c_x + shift_x,
// so that a positive shift moves the picture up or left, and a zoom under 1 magnifies. It is
// bilinear between pixels, takes the nearest pixels beyond the edges, and is then flipped (Keras's
// ImageDataGenerator, apply_affine_transform with row_axis first).
struct ImageTransform {
  double shift_y = 0, shift_x = 0;  // pixels
  double zoom_y = 1, zoom_x = 1;    // positive
  bool flip = false;                // left to right

  [[nodiscard]] bool is_identity() const {
    return shift_y == 0 && shift_x == 0 && zoom_y == 1 && zoom_x == 1 && !flip;
  }
};

// Transforms and then preprocesses an image of {channels, height, width} floats in place, in two
// passes over it. The identity leaves pixels as they are, bit for bit. Each thread keeps memory for
// the largest image so far.
void transform_image(std::span<float> image, std::int64_t channels, std::int64_t height,
                     std::int64_t width, const ImageTransform& transform,
                     const Preprocessing& preprocessing);

// Random variation of images, in the terms of Keras's ImageDataGenerator: shifts uniform in +- the
// fraction of the size, continuous; a zoom for each axis, uniform in [low, high] (a zoom_range of z
// is 1 - z to 1 + z), under 1 for larger; flips left to right with probability 1/2. The defaults
// change nothing.
//
//   CIFAR-10, training:    {.height_shift = .1, .width_shift = .1, .horizontal_flip = true}
//   ImageNet, training:    {.33, .33, .5, 1.5, true}
//   ImageNet, validation:  {.zoom_low = .875, .zoom_high = .875}
struct AugmentationOptions {
  double height_shift = 0, width_shift = 0;  // fractions of the size, in [0, 1)
  double zoom_low = 1, zoom_high = 1;        // positive
  bool horizontal_flip = false;

  // InputError for values out of range; the message names the value.
  void check() const;
  [[nodiscard]] bool is_identity() const;
};

// Samples of another dataset of {channels, height, width} images, augmented, then preprocessed. A
// sample depends on (seed, epoch, index) only: it is the same for any number of ranks, workers and
// threads. Targets pass through. Reading costs two passes over the image besides the other
// dataset's read.
class AugmentedDataset final : public Dataset {
 public:
  // InputError for options out of range and for samples that are not of three dimensions. `seed`:
  // of the run.
  AugmentedDataset(std::shared_ptr<const Dataset> source, AugmentationOptions augmentation,
                   Preprocessing preprocessing, std::uint64_t seed);

  [[nodiscard]] std::int64_t size() const override { return source_->size(); }
  [[nodiscard]] const SampleLayout& layout() const override { return source_->layout(); }
  void read(std::int64_t index, std::int64_t epoch, const SampleSpans& place) const override;
  // Made on CUDA devices, from bytes or numbers.
  [[nodiscard]] std::shared_ptr<const DeviceSamples> device_samples(
      const c10::Device& device) const override;

  [[nodiscard]] const Dataset& source() const { return *source_; }
  [[nodiscard]] const Preprocessing& preprocessing() const { return preprocessing_; }
  // Transform of a sample in an epoch.
  [[nodiscard]] ImageTransform transform(std::int64_t index, std::int64_t epoch) const;

 private:
  std::shared_ptr<const Dataset> source_;
  AugmentationOptions augmentation_;
  Preprocessing preprocessing_;
  std::uint64_t seed_;
};

}  // namespace kolo
