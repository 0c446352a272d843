#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kolo/data/preprocessing.h"

namespace kolo {

// Where one pixel of a moved image comes from. With c = (size - 1) / 2 along each axis, the middle
// of the image, the result at y, x is the source at
//   zoom_y (y - c_y) + c_y + shift_y,  zoom_x (x - c_x) + c_x + shift_x,
// between pixels bilinear (a backward map: a positive shift moves the picture up or left, a zoom
// under 1 makes things larger); then the result is flipped. Source: Keras's ImageDataGenerator,
// apply_affine_transform with row_axis first.
struct ImageTransform {
  double shift_y = 0, shift_x = 0;  // pixels
  double zoom_y = 1, zoom_x = 1;    // positive
  bool flip = false;                // left to right

  [[nodiscard]] bool is_identity() const {
    return shift_y == 0 && shift_x == 0 && zoom_y == 1 && zoom_x == 1 && !flip;
  }
};

// What is beyond the edges: the nearest pixel of the edge, or one value.
enum class Fill { nearest, constant };

struct FillOptions {
  Fill mode = Fill::nearest;
  float value = 0;  // of Fill::constant, in the units of the source's pixels
};

// Memory that transform_image works in; keep it from image to image of a size to save allocations.
// One for each thread.
struct TransformWorkspace {
  std::vector<float> image, fractions;
  std::vector<std::int32_t> places;
};

// Transforms and then preprocesses an image of {channels, height, width} floats in place, in two
// passes over it. Where the transform is the identity, the pixels that preprocessing gets are the
// source's, bit for bit. Error unless image.size() = channels x height x width, all at least 1, and
// the preprocessing is for so many channels.
void transform_image(std::span<float> image, std::int64_t channels, std::int64_t height,
                     std::int64_t width, const ImageTransform& transform, const FillOptions& fill,
                     const Preprocessing& preprocessing, TransformWorkspace& workspace);

}  // namespace kolo
