#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kolo/base/enum_names.h"

namespace kolo {

// What a network wants done to pixels of 0..255, after augmentation: channel c of the result is
// (pixel - mean[c]) / deviation[c]. One number stands for all channels.
struct Preprocessing {
  std::vector<float> mean = {0};
  std::vector<float> deviation = {1};  // positive
  bool blue_first = false;  // channels in the order blue, green, red, which is that of mean too

  // Pixels as they are, 0..255.
  [[nodiscard]] static Preprocessing none() { return {}; }
  // 0..1: pixel / 255.
  [[nodiscard]] static Preprocessing unit() { return {{0}, {255}, false}; }
  // As Keras's resnet50.preprocess_input does it ("caffe"): blue, green, red, each minus ImageNet's
  // mean.
  [[nodiscard]] static Preprocessing caffe() { return {{103.939F, 116.779F, 123.68F}, {1}, true}; }
  // (pixel / 255 - mean) / deviation, as torchvision has it; mean and deviation in units of 0..1.
  [[nodiscard]] static Preprocessing mean_deviation(std::array<float, 3> mean,
                                                    std::array<float, 3> deviation);

  // InputError unless it is for images of so many channels: one number or one a channel, finite,
  // deviations positive, blue_first with 3 channels only.
  void check(std::int64_t channels) const;
};

// Those that have a name. `automatic` is what a data set is usually given.
enum class NamedPreprocessing : std::uint8_t { automatic, none, unit, caffe, imagenet };

constexpr auto enum_names(NamedPreprocessing) {
  return std::to_array<EnumName<NamedPreprocessing>>({{NamedPreprocessing::automatic, "auto"},
                                                      {NamedPreprocessing::none, "none"},
                                                      {NamedPreprocessing::unit, "unit"},
                                                      {NamedPreprocessing::caffe, "caffe"},
                                                      {NamedPreprocessing::imagenet, "imagenet"}});
}

}  // namespace kolo
