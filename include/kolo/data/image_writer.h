#pragma once

#include <cstddef>
#include <vector>

#include "kolo/data/image.h"

namespace kolo {

enum class JpegColours { all, grey };

// An image as a baseline JPEG file, colours at half resolution as usual, or its brightness alone as
// a file of one component. Error for a quality
// outside 1 to 100 and for an image whose pixels don't fit its size.
[[nodiscard]] std::vector<std::byte> encode_jpeg(const Image& image, int quality,
                                                 JpegColours colours = JpegColours::all);

}  // namespace kolo
