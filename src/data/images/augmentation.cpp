#include "kolo/data/augmentation.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "data/device_samples.h"
#include "kolo/base/error.h"
#include "kolo/base/random.h"

namespace kolo {

namespace {

constexpr std::uint32_t augmentation_stream = 0x61756721;  // of this run's seed

void check_range(std::string_view name, double value, double low, double high,
                 std::string_view expected) {
  if (value >= low && value < high) return;
  throw InputError(
      fmt::format("data: augmentation's {} is {}, expected {}", name, value, expected));
}

}  // namespace

void AugmentationOptions::check() const {
  constexpr double most_zoom = 1e3;
  check_range("height shift", height_shift, 0, 1, "a fraction of the size in [0, 1)");
  check_range("width shift", width_shift, 0, 1, "a fraction of the size in [0, 1)");
  check_range("lower zoom", zoom_low, 1 / most_zoom, most_zoom, "0.001 to 1000");
  check_range("upper zoom", zoom_high, zoom_low, most_zoom,
              fmt::format("at least the lower one, {}, and under 1000", zoom_low));
}

bool AugmentationOptions::is_identity() const {
  return height_shift == 0 && width_shift == 0 && zoom_low == 1 && zoom_high == 1 &&
         !horizontal_flip;
}

AugmentedDataset::AugmentedDataset(std::shared_ptr<const Dataset> source,
                                   AugmentationOptions augmentation, Preprocessing preprocessing,
                                   std::uint64_t seed)
    : source_(std::move(source)),
      augmentation_(augmentation),
      preprocessing_(std::move(preprocessing)),
      seed_(derive_seed(seed, augmentation_stream, 0)) {
  augmentation_.check();
  const auto& shape = layout().input_shape;
  if (shape.size() != 3) {
    throw InputError(
        fmt::format("data: augmentation and preprocessing are for images of channels x height x "
                    "width; these samples have {} dimensions",
                    shape.size()));
  }
  preprocessing_.check(shape[0]);
}

ImageTransform AugmentedDataset::transform(std::int64_t index, std::int64_t epoch) const {
  // All five numbers are always drawn, so that one option doesn't change what another one does.
  CounterRandom random(seed_, static_cast<std::uint32_t>(epoch), static_cast<std::uint64_t>(index));
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random.uniform());
  };
  const auto& shape = layout().input_shape;
  ImageTransform transform;
  transform.shift_y = uniform(-1, 1) * augmentation_.height_shift * static_cast<double>(shape[1]);
  transform.shift_x = uniform(-1, 1) * augmentation_.width_shift * static_cast<double>(shape[2]);
  transform.zoom_y = uniform(augmentation_.zoom_low, augmentation_.zoom_high);
  transform.zoom_x = uniform(augmentation_.zoom_low, augmentation_.zoom_high);
  transform.flip = random.uniform() < .5F && augmentation_.horizontal_flip;
  return transform;
}

void AugmentedDataset::read(std::int64_t index, std::int64_t epoch,
                            const SampleSpans& place) const {
  source_->read(index, epoch, place);
  const auto& shape = layout().input_shape;
  transform_image(place.input, shape[0], shape[1], shape[2], transform(index, epoch),
                  preprocessing_);
}

std::shared_ptr<const DeviceSamples> AugmentedDataset::device_samples(
    const c10::Device& device) const {
  return make_image_samples(*this, device);
}

}  // namespace kolo
