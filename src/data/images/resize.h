#pragma once

#include <cstdint>
#include <span>

#include "data/images/image_rows.h"

namespace kolo::images {

// Reads all rows and writes the image resized to `size` as {3, height, width} floats of 0..255.
void resize_rows(ImageRows& rows, const ImageSize& size, std::span<float> planes,
                 DecodeWorkspace& workspace);

}  // namespace kolo::images
