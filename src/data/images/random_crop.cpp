#include "kolo/data/random_crop.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/random.h"

namespace kolo {

namespace {

constexpr std::uint32_t crop_stream = 0x63726F70;  // of the run's seed
constexpr int most_tries = 10;

// Of these lengths in pixels, from the middle.
ImageWindow middle_of(double crop_height, double crop_width, double height, double width) {
  return {(height - crop_height) / 2 / height, (width - crop_width) / 2 / width,
          crop_height / height, crop_width / width};
}

}  // namespace

void RandomCropOptions::check() const {
  const bool are_areas = 0 < least_area && least_area <= most_area && most_area <= 1;
  const bool are_aspects =
      0 < least_aspect && least_aspect <= most_aspect && std::isfinite(most_aspect);
  if (are_areas && are_aspects) return;
  throw InputError(
      fmt::format("data: random crops of {} to {} of an image's area and aspects of {} to {}; "
                  "expected areas above 0 and at most 1, aspects above 0, the lower ones first",
                  least_area, most_area, least_aspect, most_aspect));
}

ImageWindow draw_random_crop(const RandomCropOptions& options, std::uint64_t seed,
                             std::int64_t epoch, std::int64_t index, std::int64_t height,
                             std::int64_t width) {
  CounterRandom random(derive_seed(seed, crop_stream, 0), static_cast<std::uint32_t>(epoch),
                       static_cast<std::uint64_t>(index));
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random.uniform());
  };
  const auto rows = static_cast<double>(height), columns = static_cast<double>(width);
  for (int tries = 0; tries < most_tries; ++tries) {
    const double area = uniform(options.least_area, options.most_area) * rows * columns;
    const double aspect =
        std::exp(uniform(std::log(options.least_aspect), std::log(options.most_aspect)));
    const double crop_width = std::round(std::sqrt(area * aspect));
    const double crop_height = std::round(std::sqrt(area / aspect));
    if (crop_width < 1 || crop_height < 1 || crop_width > columns || crop_height > rows) continue;
    const double top = std::floor(uniform(0, rows - crop_height + 1));
    const double left = std::floor(uniform(0, columns - crop_width + 1));
    return {std::min(top, rows - crop_height) / rows,
            std::min(left, columns - crop_width) / columns, crop_height / rows,
            crop_width / columns};
  }
  const double aspect = columns / rows;
  if (aspect < options.least_aspect)
    return middle_of(std::max(1., std::round(columns / options.least_aspect)), columns, rows,
                     columns);
  if (aspect > options.most_aspect)
    return middle_of(rows, std::max(1., std::round(rows * options.most_aspect)), rows, columns);
  return {};
}

}  // namespace kolo
