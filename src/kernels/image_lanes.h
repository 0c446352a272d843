#pragma once

#include <cstdint>

// Convolutions (correlations, of stride 1) of images that lie in memory as [channels, height,
// width, images]: a vector holds the same value of several images, so that it is full whatever the
// channels are. The loops are in vector_loops.h.
namespace kolo::image_lanes {

inline constexpr std::int64_t lanes = 16;  // of one vector or more
inline constexpr std::int64_t longest_kernel = 11;
inline constexpr std::int64_t group = 5;  // so many outputs are computed together

struct Correlation {
  std::int64_t images = 0;  // a multiple of `lanes`
  std::int64_t inputs = 0, outputs = 0;
  std::int64_t height = 0, width = 0;  // of the input
  std::int64_t kernel_height = 0, kernel_width = 0;
  std::int64_t padding_height = 0, padding_width = 0;

  [[nodiscard]] std::int64_t output_height() const {
    return height + 2 * padding_height - kernel_height + 1;
  }
  [[nodiscard]] std::int64_t output_width() const {
    return width + 2 * padding_width - kernel_width + 1;
  }
  [[nodiscard]] std::int64_t taps() const { return kernel_height * kernel_width; }
};

// Distances in memory between a weight's neighbours.
struct WeightStrides {
  std::int64_t output = 0, input = 0, tap = 0;
};

// The weight as VectorLoops::correlate() reads it, [groups of outputs, inputs, taps, outputs of the
// group], as many values as it has.
inline void pack(const Correlation& shape, const float* weight, const WeightStrides& strides,
                 float* packed) {
  for (std::int64_t first = 0; first < shape.outputs; first += group) {
    const std::int64_t last = first + group < shape.outputs ? first + group : shape.outputs;
    for (std::int64_t input = 0; input < shape.inputs; ++input) {
      for (std::int64_t tap = 0; tap < shape.taps(); ++tap) {
        for (std::int64_t output = first; output < last; ++output)
          *packed++ = weight[output * strides.output + input * strides.input + tap * strides.tap];
      }
    }
  }
}

}  // namespace kolo::image_lanes
