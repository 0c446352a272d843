#include "tools/generators/cubic.h"

#include <algorithm>
#include <cmath>

namespace kolo {

namespace {

std::vector<CubicTaps> taps_of(std::span<const float> places) {
  std::vector<CubicTaps> taps;
  taps.reserve(places.size());
  for (const float place : places) taps.push_back(cubic_taps(place));
  return taps;
}

// Where the pixels' middles lie in a lattice of so many cells, one point before the first cell.
std::vector<float> lattice_places(float cells, std::int64_t pixels) {
  std::vector<float> places(static_cast<std::size_t>(pixels));
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i] = 1 + (static_cast<float>(i) + .5F) * cells / static_cast<float>(pixels);
  }
  return places;
}

}  // namespace

CubicTaps cubic_taps(float place) {
  const float floor = std::floor(place);
  const float t = place - floor, t2 = t * t, t3 = t2 * t;
  return {static_cast<std::int64_t>(floor) - 1,
          {.5F * (-t3 + 2 * t2 - t), .5F * (3 * t3 - 5 * t2 + 2), .5F * (-3 * t3 + 4 * t2 + t),
           .5F * (t3 - t2)}};
}

std::vector<float> resample(std::span<const float> plane, std::int64_t rows, std::int64_t columns,
                            std::span<const float> row_places,
                            std::span<const float> column_places) {
  const auto row_taps = taps_of(row_places), column_taps = taps_of(column_places);
  const auto width = column_taps.size();
  std::vector<float> wide(static_cast<std::size_t>(rows) * width);  // resampled along rows
  const auto at_edge = [](std::int64_t place, std::int64_t size) {
    return static_cast<std::size_t>(std::clamp<std::int64_t>(place, 0, size - 1));
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto line = plane.subspan(static_cast<std::size_t>(row * columns));
    for (std::size_t x = 0; x < width; ++x) {
      const auto& [first, weights] = column_taps[x];
      float sum = 0;
      for (int i = 0; i < 4; ++i) {
        sum += weights[static_cast<std::size_t>(i)] * line[at_edge(first + i, columns)];
      }
      wide[static_cast<std::size_t>(row) * width + x] = sum;
    }
  }
  std::vector<float> result(row_taps.size() * width);
  for (std::size_t y = 0; y < row_taps.size(); ++y) {
    const auto& [first, weights] = row_taps[y];
    const auto out = std::span(result).subspan(y * width, width);
    for (int i = 0; i < 4; ++i) {
      const auto line = std::span(wide).subspan(at_edge(first + i, rows) * width, width);
      const float weight = weights[static_cast<std::size_t>(i)];
      for (std::size_t x = 0; x < width; ++x) out[x] += weight * line[x];
    }
  }
  return result;
}

std::vector<float> value_noise(CounterRandom& random, float row_cells, float column_cells,
                               std::int64_t height, std::int64_t width) {
  // Three points more than cells: the corners beyond, which the outermost cells lean on.
  const auto rows = static_cast<std::int64_t>(std::ceil(row_cells)) + 3;
  const auto columns = static_cast<std::int64_t>(std::ceil(column_cells)) + 3;
  std::vector<float> lattice(static_cast<std::size_t>(rows * columns));
  for (float& value : lattice) value = random.uniform();
  return resample(lattice, rows, columns, lattice_places(row_cells, height),
                  lattice_places(column_cells, width));
}

}  // namespace kolo
