#pragma once

#include <cstddef>
#include <vector>

#include "kolo/data/image.h"

namespace kolo {

// An image as a baseline JPEG file, colours at half resolution as usual. Error for a quality
// outside 1 to 100 and for an image whose pixels don't fit its size.
[[nodiscard]] std::vector<std::byte> encode_jpeg(const Image& image, int quality);

}  // namespace kolo
