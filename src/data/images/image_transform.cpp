#include "kolo/data/augmentation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "data/images/image_kernels.h"
#include "kolo/base/error.h"
#include "kolo/base/random.h"

namespace kolo {

Preprocessing Preprocessing::mean_deviation(std::array<float, 3> mean,
                                            std::array<float, 3> deviation) {
  Preprocessing result{{}, {}, false};
  for (const float number : mean) result.mean.push_back(255 * number);
  for (const float number : deviation) result.deviation.push_back(255 * number);
  return result;
}

void Preprocessing::check(std::int64_t channels) const {
  for (const auto& [name, numbers] : {std::pair("mean", &mean), {"deviation", &deviation}}) {
    if (numbers->size() == 1 || std::cmp_equal(numbers->size(), channels)) continue;
    throw InputError(fmt::format(
        "data: preprocessing has {} numbers of {} for images of {} channels; give one number, or "
        "one a channel",
        numbers->size(), name, channels));
  }
  if (blue_first && channels != 3) {
    throw InputError(fmt::format(
        "data: preprocessing swaps red and blue, but the images have {} channels, expected 3",
        channels));
  }
}

namespace {

// One axis of the map: result place i lies between the source's places first[i] and second[i].
struct AxisMap {
  std::vector<std::int32_t> first, second;
  std::vector<float> fractions;

  void fill(std::size_t size, double zoom, double shift, bool flip) {
    first.resize(size);
    second.resize(size);
    fractions.resize(size);
    for (std::size_t i = 0; i < size; ++i) {
      const auto place = images::axis_source(static_cast<std::int32_t>(i),
                                             static_cast<std::int32_t>(size), zoom, shift, flip);
      first[i] = place.first;
      second[i] = place.second;
      fractions[i] = place.fraction;
    }
  }
};

float of_channel(const std::vector<float>& numbers, std::size_t channel) {
  return numbers[numbers.size() == 1 ? 0 : channel];
}

// Along x, every row of the image into the same row of `moved`.
void move_columns(std::span<const float> image, const AxisMap& map, std::span<float> moved) {
  const auto width = map.first.size();
  for (std::size_t begin = 0; begin < image.size(); begin += width)
    images::interpolate_row(image.data() + begin, map.first.data(), map.second.data(),
                            map.fractions.data(), moved.data() + begin, width);
}

// Along y, one channel, and preprocesses it.
void move_rows(std::span<const float> moved, const AxisMap& map, float mean, float deviation,
               std::span<float> result) {
  const auto width = moved.size() / map.first.size();
  for (std::size_t y = 0; y < map.first.size(); ++y)
    images::mix_rows(moved.data() + static_cast<std::size_t>(map.first[y]) * width,
                     moved.data() + static_cast<std::size_t>(map.second[y]) * width,
                     map.fractions[y], mean, deviation, result.data() + y * width, width);
}

// Preprocessing alone.
void preprocess(std::span<float> image, std::size_t channels, const Preprocessing& preprocessing) {
  const auto plane = image.size() / channels;
  if (preprocessing.blue_first) {
    std::swap_ranges(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(plane),
                     image.end() - static_cast<std::ptrdiff_t>(plane));
  }
  for (std::size_t c = 0; c < channels; ++c) {
    const float mean = of_channel(preprocessing.mean, c);
    const float deviation = of_channel(preprocessing.deviation, c);
    if (mean == 0 && deviation == 1) continue;
    images::normalise(image.data() + c * plane, mean, deviation, plane);
  }
}

}  // namespace

void transform_image(std::span<float> image, std::int64_t channels, std::int64_t height,
                     std::int64_t width, const ImageTransform& transform,
                     const Preprocessing& preprocessing) {
  const auto count = static_cast<std::size_t>(channels), plane = image.size() / count;
  if (transform.is_identity()) return preprocess(image, count, preprocessing);

  static thread_local AxisMap columns, rows;  // kept from image to image
  static thread_local std::vector<float> moved;
  moved.resize(image.size());
  columns.fill(static_cast<std::size_t>(width), transform.zoom_x, transform.shift_x,
               transform.flip);
  rows.fill(static_cast<std::size_t>(height), transform.zoom_y, transform.shift_y, false);
  move_columns(image, columns, moved);
  for (std::size_t c = 0; c < count; ++c) {
    const auto source = preprocessing.blue_first ? count - 1 - c : c;
    move_rows(std::span(moved).subspan(source * plane, plane), rows,
              of_channel(preprocessing.mean, c), of_channel(preprocessing.deviation, c),
              image.subspan(c * plane, plane));
  }
}

namespace {

constexpr std::uint32_t crop_stream = 0x63726F70;  // of the run's seed
constexpr int most_tries = 10;
constexpr double least_aspect = .75, most_aspect = 4. / 3;  // width by height, in pixels

// A crop of these lengths in pixels, from the middle.
ImageWindow middle_of(double crop_height, double crop_width, double height, double width) {
  return {(height - crop_height) / 2 / height, (width - crop_width) / 2 / width,
          crop_height / height, crop_width / width};
}

}  // namespace

ImageWindow draw_random_crop(double least_area, std::uint64_t seed, std::int64_t epoch,
                             std::int64_t index, std::int64_t height, std::int64_t width) {
  CounterRandom random(derive_seed(seed, crop_stream, 0), static_cast<std::uint32_t>(epoch),
                       static_cast<std::uint64_t>(index));
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random.uniform());
  };
  const auto rows = static_cast<double>(height), columns = static_cast<double>(width);
  for (int tries = 0; tries < most_tries; ++tries) {
    const double area = uniform(least_area, 1) * rows * columns;
    const double aspect = std::exp(uniform(std::log(least_aspect), std::log(most_aspect)));
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
  if (aspect < least_aspect)
    return middle_of(std::max(1., std::round(columns / least_aspect)), columns, rows, columns);
  if (aspect > most_aspect)
    return middle_of(rows, std::max(1., std::round(rows * most_aspect)), rows, columns);
  return {};
}

}  // namespace kolo
