#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/images/png_files.h"
#include "kolo/data/image.h"

// Images and image files made for tests.
namespace kolo::testing {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Waves of a size that JPEG keeps, of different colours for different seeds.
inline Image smooth_image(std::int64_t height, std::int64_t width, unsigned seed = 1) {
  Image image{height, width, {}};
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (unsigned c = 0; c < 3; ++c) {
        const double wave = std::sin(.02 * (c + 1) * static_cast<double>(x) + seed) +
                            std::cos(.03 * static_cast<double>(y) - c * seed);
        image.pixels.push_back(static_cast<std::uint8_t>(std::lround(127.5 + 60 * wave)));
      }
    }
  }
  return image;
}

inline Image noise_image(std::int64_t height, std::int64_t width, unsigned seed = 1) {
  std::mt19937 random(seed);
  Image image{height, width, {}};
  image.pixels.resize(static_cast<std::size_t>(3 * height * width));
  for (auto& value : image.pixels) value = static_cast<std::uint8_t>(random() % 256);
  return image;
}

inline std::string png_file(const Image& image) {
  return png_file(static_cast<std::uint32_t>(image.height), static_cast<std::uint32_t>(image.width),
                  {reinterpret_cast<const char*>(image.pixels.data()), image.pixels.size()});
}

}  // namespace kolo::testing
