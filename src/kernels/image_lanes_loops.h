#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "kernels/image_lanes.h"
#include "kernels/vector_values.h"

// The loops of image_lanes.h, for vectors that were included before.
namespace kolo::KOLO_VECTORS {

using image_lanes::Correlation;
using image_lanes::group;

// Sums that stay in registers beside their operands: of vectors of images for a group of outputs,
// and of taps for outputs.
constexpr std::int64_t most_image_vectors = registers == 32 ? 4 : 2;
constexpr std::int64_t most_taps = 5, most_sums_of_taps = registers == 32 ? 25 : 10;

struct TapRange {
  std::int64_t begin = 0, end = 0;
};

// The taps that fall on the input, for an output at `position`.
inline TapRange taps_inside(std::int64_t position, std::int64_t length, std::int64_t kernel,
                            std::int64_t padding) {
  return {std::max<std::int64_t>(0, padding - position),
          std::min(kernel, length + padding - position)};
}

// Computes a group of outputs at one position, for `Vectors` vectors of images. `input` and
// `output` begin at the first of these images, `output` also at the position and the group's first
// channel.
template <int Vectors, int Outputs>
KOLO_VECTOR void correlate_point(const Correlation& shape, const float* input, const float* weights,
                                 const float* bias, float* output, std::int64_t y, std::int64_t x) {
  Vector sums[Outputs][Vectors];
  for (int o = 0; o < Outputs; ++o) {
    for (int v = 0; v < Vectors; ++v) sums[o][v] = bias == nullptr ? zeros() : all(bias[o]);
  }
  const auto rows = taps_inside(y, shape.height, shape.kernel_height, shape.padding_height);
  const auto columns = taps_inside(x, shape.width, shape.kernel_width, shape.padding_width);
  for (std::int64_t channel = 0; channel < shape.inputs; ++channel) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t line =
          (channel * shape.height + y + row - shape.padding_height) * shape.width + x -
          shape.padding_width;
      const std::int64_t tap = (channel * shape.kernel_height + row) * shape.kernel_width;
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const float* const from = input + (line + column) * shape.images;
        const float* const factors = weights + (tap + column) * Outputs;
        Vector values[Vectors];
        for (int v = 0; v < Vectors; ++v) values[v] = loaded(from + v * lanes);
        for (int o = 0; o < Outputs; ++o) {
          const Vector factor = all(factors[o]);
          for (int v = 0; v < Vectors; ++v)
            sums[o][v] = multiplied_added(values[v], factor, sums[o][v]);
        }
      }
    }
  }
  const std::int64_t plane = shape.output_height() * shape.output_width() * shape.images;
  for (int o = 0; o < Outputs; ++o) {
    for (int v = 0; v < Vectors; ++v) store(output + o * plane + v * lanes, sums[o][v]);
  }
}

using CorrelatePoint = void (*)(const Correlation&, const float*, const float*, const float*,
                                float*, std::int64_t, std::int64_t);

// By vectors and outputs, of which there is one at least.
template <std::size_t... I>
constexpr auto points_of(std::index_sequence<I...>) {
  constexpr auto outputs = static_cast<std::size_t>(group);
  return std::array<CorrelatePoint, sizeof...(I)>{
      correlate_point<I / outputs + 1, I % outputs + 1>...};
}

constexpr auto points = points_of(std::make_index_sequence<most_image_vectors * group>());

// One row of outputs and one of taps: adds to the sums of a group of outputs by `Taps` taps.
// `gradient` begins at the row and the group's first channel, `input` at the row's first tap.
template <int Outputs, int Taps>
KOLO_VECTOR void add_row(const Correlation& shape, const float* input, const float* gradient,
                         float* sums) {
  Vector total[Outputs][Taps];
  for (int o = 0; o < Outputs; ++o) {
    for (int t = 0; t < Taps; ++t) total[o][t] = loaded(sums + (o * Taps + t) * lanes);
  }
  const std::int64_t plane = shape.output_height() * shape.output_width() * shape.images;
  const std::int64_t values = shape.output_width() * shape.images;
  for (std::int64_t i = 0; i < values; i += lanes) {
    Vector gradients[Outputs];
    for (int o = 0; o < Outputs; ++o) gradients[o] = loaded(gradient + o * plane + i);
    for (int t = 0; t < Taps; ++t) {
      const Vector value = loaded(input + t * shape.images + i);
      for (int o = 0; o < Outputs; ++o)
        total[o][t] = multiplied_added(gradients[o], value, total[o][t]);
    }
  }
  for (int o = 0; o < Outputs; ++o) {
    for (int t = 0; t < Taps; ++t) store(sums + (o * Taps + t) * lanes, total[o][t]);
  }
}

using AddRow = void (*)(const Correlation&, const float*, const float*, float*);

// By outputs and taps, of which there is one at least.
template <std::size_t... I>
constexpr auto rows_of(std::index_sequence<I...>) {
  constexpr auto taps = static_cast<std::size_t>(most_taps);
  return std::array<AddRow, sizeof...(I)>{add_row<I / taps + 1, I % taps + 1>...};
}

constexpr auto row_loops = rows_of(std::make_index_sequence<group * most_taps>());

inline float sum_of_lanes(const float* values) {
  return std::accumulate(values, values + lanes, 0.F);
}

struct OutputsAndTaps {
  std::int64_t first = 0, outputs = 0;
  std::int64_t column = 0, taps = 0;  // of all rows
};

// Adds up the gradients for one input channel.
inline void gradients_of_group(const Correlation& shape, const float* input, const float* gradient,
                               std::int64_t channel, const OutputsAndTaps& some,
                               float* weight_gradient) {
  const auto [first, outputs, column, taps] = some;
  const auto add = row_loops[static_cast<std::size_t>((outputs - 1) * most_taps + taps - 1)];
  alignas(64) std::array<float, image_lanes::longest_kernel * most_sums_of_taps * lanes> sums;
  const std::int64_t block = outputs * taps * lanes;  // of a row of taps
  std::fill_n(sums.data(), shape.kernel_height * block, 0.F);
  const std::int64_t row_of_output = shape.output_width() * shape.images;
  const float* const from = gradient + first * shape.output_height() * row_of_output;
  for (std::int64_t y = 0; y < shape.output_height(); ++y) {
    for (std::int64_t row = 0; row < shape.kernel_height; ++row) {
      const std::int64_t line = (channel * shape.height + y + row) * shape.width + column;
      add(shape, input + line * shape.images, from + y * row_of_output, sums.data() + row * block);
    }
  }
  for (std::int64_t row = 0; row < shape.kernel_height; ++row) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      float* const into = weight_gradient + ((first + o) * shape.inputs + channel) * shape.taps() +
                          row * shape.kernel_width + column;
      for (std::int64_t t = 0; t < taps; ++t)
        into[t] = sum_of_lanes(sums.data() + row * block + (o * taps + t) * lanes);
    }
  }
}

inline void correlate(const Correlation& shape, const float* input, const float* packed,
                      const float* bias, float* output, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = shape.output_width();
  const std::int64_t plane = shape.output_height() * width * shape.images;
  for (std::int64_t y = begin; y < end; ++y) {
    for (std::int64_t first = 0; first < shape.outputs; first += group) {
      const auto outputs = std::min(group, shape.outputs - first);
      const float* const weights = packed + first * shape.inputs * shape.taps();
      const float* const start = bias == nullptr ? nullptr : bias + first;
      for (std::int64_t x = 0; x < width; ++x) {
        float* const into = output + first * plane + (y * width + x) * shape.images;
        for (std::int64_t image = 0; image < shape.images; image += most_image_vectors * lanes) {
          const auto vectors = std::min(most_image_vectors, (shape.images - image) / lanes);
          points[static_cast<std::size_t>((vectors - 1) * group + outputs - 1)](
              shape, input + image, weights, start, into + image, y, x);
        }
      }
    }
  }
}

inline void correlate_gradients(const Correlation& shape, const float* input, const float* gradient,
                                float* weight_gradient, std::int64_t begin, std::int64_t end) {
  for (std::int64_t column = 0; column < shape.kernel_width; column += most_taps) {
    const auto taps = std::min(most_taps, shape.kernel_width - column);
    const auto most_outputs = std::min(group, most_sums_of_taps / taps);
    for (std::int64_t channel = begin; channel < end; ++channel) {
      for (std::int64_t first = 0; first < shape.outputs; first += most_outputs) {
        const auto outputs = std::min(most_outputs, shape.outputs - first);
        gradients_of_group(shape, input, gradient, channel, {first, outputs, column, taps},
                           weight_gradient);
      }
    }
  }
}

}  // namespace kolo::KOLO_VECTORS
