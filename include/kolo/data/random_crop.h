#pragma once

#include <cstdint>

#include "kolo/data/image.h"

namespace kolo {

// Which parts of images random resized crops may be. The numbers are torchvision's
// (RandomResizedCrop), after Szegedy et al., "Going deeper with convolutions", 2015.
struct RandomCropOptions {
  double least_area = .08, most_area = 1;           // of the image's
  double least_aspect = .75, most_aspect = 4. / 3;  // width by height, in pixels

  // InputError for numbers out of range.
  void check() const;
};

// The part of a sample of these lengths in an epoch, drawn as torchvision does it: area uniform,
// aspect uniform in its logarithm, place uniform; drawn anew while it is larger than the image, ten
// times at most, and then as much of the middle as an allowed aspect leaves. Lengths and places are
// whole pixels. Depends on seed, epoch, index and lengths alone.
[[nodiscard]] ImageWindow draw_random_crop(const RandomCropOptions& options, std::uint64_t seed,
                                           std::int64_t epoch, std::int64_t index,
                                           std::int64_t height, std::int64_t width);

}  // namespace kolo
