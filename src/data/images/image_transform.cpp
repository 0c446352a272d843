#include "kolo/data/augmentation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "data/images/image_kernels.h"
#include "data/images/pixel_steps.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

void check_numbers(std::string_view name, const std::vector<float>& numbers,
                   std::int64_t channels) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  if (count != 1 && count != channels) {
    throw InputError(fmt::format(
        "data: preprocessing has {} numbers of {} for images of {} channels; give one number, or "
        "one a channel",
        count, name, channels));
  }
  for (const float number : numbers) {
    if (!std::isfinite(number)) {
      throw InputError(
          fmt::format("data: a {} of preprocessing is {}, expected a finite number", name, number));
    }
  }
}

}  // namespace

Preprocessing Preprocessing::mean_deviation(std::array<float, 3> mean,
                                            std::array<float, 3> deviation) {
  Preprocessing result{{}, {}, false};
  for (const float number : mean) result.mean.push_back(255 * number);
  for (const float number : deviation) result.deviation.push_back(255 * number);
  return result;
}

void Preprocessing::check(std::int64_t channels) const {
  check_numbers("mean", mean, channels);
  check_numbers("deviation", deviation, channels);
  for (const float number : deviation) {
    if (!(number > 0)) {
      throw InputError(fmt::format(
          "data: a deviation of preprocessing is {}, expected a positive number", number));
    }
  }
  if (blue_first && channels != 3) {
    throw InputError(fmt::format(
        "data: preprocessing swaps red and blue, but the images have {} channels, expected 3",
        channels));
  }
}

namespace {

// One axis of the map: result place i lies between the source's places first[i] and second[i]. The
// map is monotone, so what lies inside the source is one range.
struct AxisMap {
  std::span<std::int32_t> first, second;
  std::span<float> fractions;
  std::size_t inside_begin = 0, inside_end = 0;  // in result places
};

void fill_axis_map(AxisMap& map, double zoom, double shift, bool flip) {
  const auto size = map.first.size();
  map.inside_begin = size;
  map.inside_end = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const auto place = images::axis_place(static_cast<std::int32_t>(i),
                                          static_cast<std::int32_t>(size), zoom, shift, flip);
    if (place.is_inside) {
      map.inside_begin = std::min(map.inside_begin, i);
      map.inside_end = i + 1;
    }
    map.first[i] = place.first;
    map.second[i] = place.second;
    map.fractions[i] = place.fraction;
  }
  if (map.inside_begin > map.inside_end) map.inside_begin = map.inside_end;
}

struct Size {
  std::size_t channels, height, width;
};

float of_channel(const std::vector<float>& numbers, std::size_t channel) {
  return numbers[numbers.size() == 1 ? 0 : channel];
}

// Along x, every row of the image into the same row of `moved`.
void move_columns(std::span<const float> image, const Size& size, const AxisMap& map,
                  const FillOptions& fill, std::span<float> moved) {
  for (std::size_t begin = 0; begin < image.size(); begin += size.width) {
    float* row = moved.data() + begin;
    images::interpolate_row(image.data() + begin, map.first.data(), map.second.data(),
                            map.fractions.data(), row, size.width);
    if (fill.mode == Fill::constant) {
      std::fill(row, row + map.inside_begin, fill.value);
      std::fill(row + map.inside_end, row + size.width, fill.value);
    }
  }
}

// Along y, one channel, and preprocesses it.
void move_rows(std::span<const float> moved, std::size_t width, const AxisMap& map,
               const FillOptions& fill, float mean, float deviation, std::span<float> result) {
  for (std::size_t y = 0; y < map.first.size(); ++y) {
    float* row = result.data() + y * width;
    if (fill.mode == Fill::constant && (y < map.inside_begin || y >= map.inside_end)) {
      std::fill(row, row + width, images::preprocessed(fill.value, mean, deviation));
      continue;
    }
    images::mix_rows(moved.data() + static_cast<std::size_t>(map.first[y]) * width,
                     moved.data() + static_cast<std::size_t>(map.second[y]) * width,
                     map.fractions[y], mean, deviation, row, width);
  }
}

// Preprocessing alone.
void preprocess(std::span<float> image, const Size& size, const Preprocessing& preprocessing) {
  const auto plane = size.height * size.width;
  if (preprocessing.blue_first) {
    std::swap_ranges(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(plane),
                     image.end() - static_cast<std::ptrdiff_t>(plane));
  }
  for (std::size_t c = 0; c < size.channels; ++c) {
    const float mean = of_channel(preprocessing.mean, c);
    const float deviation = of_channel(preprocessing.deviation, c);
    if (mean == 0 && deviation == 1) continue;
    images::normalise(image.data() + c * plane, mean, deviation, plane);
  }
}

Size checked_size(std::span<float> image, std::int64_t channels, std::int64_t height,
                  std::int64_t width) {
  constexpr std::int64_t most = std::int64_t{1} << 30;  // places are 32-bit numbers
  const bool are_sizes = std::min({channels, height, width}) >= 1 && std::max(height, width) < most;
  const auto expected = are_sizes ? checked_product(std::span<const std::int64_t>(
                                        std::array<std::int64_t, 3>{channels, height, width}))
                                  : 0;
  if (!are_sizes || !std::cmp_equal(image.size(), expected)) {
    throw Error(fmt::format("data: an image of {} x {} x {} in a place of {} numbers", channels,
                            height, width, image.size()));
  }
  return {static_cast<std::size_t>(channels), static_cast<std::size_t>(height),
          static_cast<std::size_t>(width)};
}

}  // namespace

void transform_image(std::span<float> image, std::int64_t channels, std::int64_t height,
                     std::int64_t width, const ImageTransform& transform, const FillOptions& fill,
                     const Preprocessing& preprocessing, TransformWorkspace& workspace) {
  const Size size = checked_size(image, channels, height, width);
  preprocessing.check(channels);
  if (transform.is_identity()) return preprocess(image, size, preprocessing);

  const auto places = size.width + size.height;
  workspace.image.resize(image.size());
  workspace.fractions.resize(places);
  workspace.places.resize(2 * places);
  const auto axis = [&](std::size_t begin, std::size_t count) {
    return AxisMap{std::span(workspace.places).subspan(2 * begin, count),
                   std::span(workspace.places).subspan(2 * begin + count, count),
                   std::span(workspace.fractions).subspan(begin, count)};
  };
  AxisMap columns = axis(0, size.width);
  AxisMap rows = axis(size.width, size.height);
  fill_axis_map(columns, transform.zoom_x, transform.shift_x, transform.flip);
  fill_axis_map(rows, transform.zoom_y, transform.shift_y, false);

  move_columns(image, size, columns, fill, workspace.image);
  const auto plane = size.height * size.width;
  for (std::size_t c = 0; c < size.channels; ++c) {
    const auto source = preprocessing.blue_first ? size.channels - 1 - c : c;
    move_rows(std::span(workspace.image).subspan(source * plane, plane), size.width, rows, fill,
              of_channel(preprocessing.mean, c), of_channel(preprocessing.deviation, c),
              image.subspan(c * plane, plane));
  }
}

}  // namespace kolo
