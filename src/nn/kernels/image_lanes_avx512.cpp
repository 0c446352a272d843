#include <algorithm>
#include <array>
#include <numeric>

#include <immintrin.h>

#include "nn/kernels/loops.h"

// Sums stay in registers: of 4 vectors of images for 5 outputs, or of 5 outputs for 5 taps.
#define KOLO_AVX512 __attribute__((target("avx512f")))

namespace kolo::image_lanes {

namespace {

constexpr std::int64_t most_vectors = 4, most_taps = 5;

struct Range {
  std::int64_t begin = 0, end = 0;
};

// The taps that fall on the input, for an output at `position`.
Range taps_inside(std::int64_t position, std::int64_t length, std::int64_t kernel,
                  std::int64_t padding) {
  return {std::max<std::int64_t>(0, padding - position),
          std::min(kernel, length + padding - position)};
}

// Of a group of outputs at one position, so many vectors of images. `input` and `output` begin at
// the first of these images, `output` also at the position and the group's first channel.
template <int Vectors, int Outputs>
KOLO_AVX512 void correlate_point(const Correlation& shape, const float* input, const float* weights,
                                 const float* bias, float* output, std::int64_t y, std::int64_t x) {
  __m512 sums[Outputs][Vectors];
  for (int o = 0; o < Outputs; ++o) {
    for (int v = 0; v < Vectors; ++v)
      sums[o][v] = bias == nullptr ? _mm512_setzero_ps() : _mm512_set1_ps(bias[o]);
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
        __m512 values[Vectors];
        for (int v = 0; v < Vectors; ++v) values[v] = _mm512_loadu_ps(from + v * lanes);
        for (int o = 0; o < Outputs; ++o) {
          const __m512 factor = _mm512_set1_ps(factors[o]);
          for (int v = 0; v < Vectors; ++v)
            sums[o][v] = _mm512_fmadd_ps(values[v], factor, sums[o][v]);
        }
      }
    }
  }
  const std::int64_t plane = shape.output_height() * shape.output_width() * shape.images;
  for (int o = 0; o < Outputs; ++o) {
    for (int v = 0; v < Vectors; ++v) _mm512_storeu_ps(output + o * plane + v * lanes, sums[o][v]);
  }
}

using CorrelatePoint = void (*)(const Correlation&, const float*, const float*, const float*,
                                float*, std::int64_t, std::int64_t);

template <int Vectors>
constexpr std::array<CorrelatePoint, group> points_of = {
    correlate_point<Vectors, 1>, correlate_point<Vectors, 2>, correlate_point<Vectors, 3>,
    correlate_point<Vectors, 4>, correlate_point<Vectors, 5>};

constexpr std::array<std::array<CorrelatePoint, group>, most_vectors> points = {
    points_of<1>, points_of<2>, points_of<3>, points_of<4>};

// One row of outputs and one of taps: adds to the sums of a group of outputs by `Taps` taps.
// `gradient` begins at the row and the group's first channel, `input` at the row's first tap.
template <int Outputs, int Taps>
KOLO_AVX512 void add_row(const Correlation& shape, const float* input, const float* gradient,
                         float* sums) {
  __m512 total[Outputs][Taps];
  for (int o = 0; o < Outputs; ++o) {
    for (int t = 0; t < Taps; ++t) total[o][t] = _mm512_loadu_ps(sums + (o * Taps + t) * lanes);
  }
  const std::int64_t plane = shape.output_height() * shape.output_width() * shape.images;
  const std::int64_t values = shape.output_width() * shape.images;
  for (std::int64_t i = 0; i < values; i += lanes) {
    __m512 gradients[Outputs];
    for (int o = 0; o < Outputs; ++o) gradients[o] = _mm512_loadu_ps(gradient + o * plane + i);
    for (int t = 0; t < Taps; ++t) {
      const __m512 value = _mm512_loadu_ps(input + t * shape.images + i);
      for (int o = 0; o < Outputs; ++o)
        total[o][t] = _mm512_fmadd_ps(gradients[o], value, total[o][t]);
    }
  }
  for (int o = 0; o < Outputs; ++o) {
    for (int t = 0; t < Taps; ++t) _mm512_storeu_ps(sums + (o * Taps + t) * lanes, total[o][t]);
  }
}

using AddRow = void (*)(const Correlation&, const float*, const float*, float*);

template <int Outputs>
constexpr std::array<AddRow, most_taps> rows_of = {add_row<Outputs, 1>, add_row<Outputs, 2>,
                                                   add_row<Outputs, 3>, add_row<Outputs, 4>,
                                                   add_row<Outputs, 5>};

constexpr std::array<std::array<AddRow, most_taps>, group> rows = {
    rows_of<1>, rows_of<2>, rows_of<3>, rows_of<4>, rows_of<5>};

float sum_of_lanes(const float* values) {
  return std::accumulate(values, values + lanes, 0.F);
}

// A group of outputs, one input channel, and taps [column, column + taps) of all rows.
void gradients_of_group(const Correlation& shape, const float* input, const float* gradient,
                        std::int64_t first, std::int64_t channel, std::int64_t column,
                        float* weight_gradient) {
  const auto outputs = std::min(group, shape.outputs - first);
  const auto taps = std::min(most_taps, shape.kernel_width - column);
  const auto add = rows[static_cast<std::size_t>(outputs - 1)][static_cast<std::size_t>(taps - 1)];
  alignas(64) std::array<float, longest_kernel * group * most_taps * lanes> sums;
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

}  // namespace

bool are_supported() {
  return __builtin_cpu_supports("avx512f") != 0;
}

void correlate(const Correlation& shape, const float* input, const float* packed, const float* bias,
               float* output, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = shape.output_width();
  const std::int64_t plane = shape.output_height() * width * shape.images;
  for (std::int64_t y = begin; y < end; ++y) {
    for (std::int64_t first = 0; first < shape.outputs; first += group) {
      const auto outputs = std::min(group, shape.outputs - first);
      const float* const weights = packed + first * shape.inputs * shape.taps();
      const float* const start = bias == nullptr ? nullptr : bias + first;
      for (std::int64_t x = 0; x < width; ++x) {
        float* const into = output + first * plane + (y * width + x) * shape.images;
        for (std::int64_t image = 0; image < shape.images; image += most_vectors * lanes) {
          const auto vectors = std::min(most_vectors, (shape.images - image) / lanes);
          points[static_cast<std::size_t>(vectors - 1)][static_cast<std::size_t>(outputs - 1)](
              shape, input + image, weights, start, into + image, y, x);
        }
      }
    }
  }
}

void correlate_gradients(const Correlation& shape, const float* input, const float* gradient,
                         float* weight_gradient, std::int64_t begin, std::int64_t end) {
  for (std::int64_t channel = begin; channel < end; ++channel) {
    for (std::int64_t first = 0; first < shape.outputs; first += group) {
      for (std::int64_t column = 0; column < shape.kernel_width; column += most_taps)
        gradients_of_group(shape, input, gradient, first, channel, column, weight_gradient);
    }
  }
}

KOLO_AVX512 float sum(const float* values, std::int64_t count) {
  __m512 total = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < count; i += lanes)
    total = _mm512_add_ps(total, _mm512_loadu_ps(values + i));
  alignas(64) std::array<float, lanes> parts;
  _mm512_store_ps(parts.data(), total);
  return sum_of_lanes(parts.data());
}

}  // namespace kolo::image_lanes
