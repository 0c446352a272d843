#pragma once

#include <cstdint>
#include <memory>

#include "kolo/data/dataset.h"
#include "kolo/data/image_transform.h"

namespace kolo {

template <typename Workspace>
class WorkspacePool;

// How images are varied at random, in the terms of Keras's ImageDataGenerator: shifts uniform in
// +- the fraction of the size, continuous; zooms uniform in [low, high], of their own for each
// axis, under 1 for larger; flipped left to right with probability 1/2. The defaults change
// nothing.
//
//   CIFAR-10, training:    {.height_shift = .1, .width_shift = .1, .horizontal_flip = true}
//   ImageNet, training:    {.33, .33, .5, 1.5, true}
//   ImageNet, validation:  {.zoom_low = .875, .zoom_high = .875}
struct AugmentationOptions {
  double height_shift = 0, width_shift = 0;  // fractions of the size, in [0, 1)
  double zoom_low = 1, zoom_high = 1;        // positive
  bool horizontal_flip = false;
  FillOptions fill;

  // Keras's zoom_range: z stands for [1 - z, 1 + z].
  void set_zoom_range(double z) { zoom_low = 1 - z, zoom_high = 1 + z; }
  // InputError for values out of range; the message names the value.
  void check() const;
  [[nodiscard]] bool is_identity() const;
};

// The samples of another dataset of {channels, height, width} images, augmented, then preprocessed.
// What a sample looks like depends on (seed, epoch, index) only: it is the same for any number of
// ranks, workers and threads. Targets pass through. Thread-safe as every dataset; reading costs two
// passes over the image besides the other dataset's read.
class AugmentedDataset final : public Dataset {
 public:
  // InputError for options out of range and for samples that are not of three dimensions.
  AugmentedDataset(std::shared_ptr<const Dataset> source, AugmentationOptions augmentation,
                   Preprocessing preprocessing, std::uint64_t seed);
  ~AugmentedDataset() override;

  [[nodiscard]] std::int64_t size() const override { return source_->size(); }
  [[nodiscard]] const SampleLayout& layout() const override { return source_->layout(); }
  void read(std::int64_t index, std::int64_t epoch, const SamplePlace& place) const override;

  // What happens to a sample in an epoch.
  [[nodiscard]] ImageTransform transform(std::int64_t index, std::int64_t epoch) const;

 private:
  std::shared_ptr<const Dataset> source_;
  AugmentationOptions augmentation_;
  Preprocessing preprocessing_;
  std::uint64_t seed_;
  std::unique_ptr<WorkspacePool<TransformWorkspace>> workspaces_;
};

}  // namespace kolo
