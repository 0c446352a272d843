#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <zlib.h>

#include "kolo/data/image.h"
#include "support/idx_files.h"

// Images and image files made for tests.
namespace kolo::testing {

// PNG files written chunk by chunk, so that tests can have kinds and faults that no library writes.
inline std::string png_chunk(std::string_view type, std::string_view data) {
  const std::string body = std::string(type) + std::string(data);
  const auto checksum =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(data.size(), 4) + body + big_endian(checksum, 4);
}

inline std::string zlib_bytes(std::string_view data) {
  uLongf size = compressBound(data.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(data.data()), data.size());
  packed.resize(size);
  return packed;
}

struct PngKind {
  std::uint32_t width, height;
  int bits, colour_type;  // 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha
  bool interlaced = false;
};

inline const std::string png_signature = "\x89PNG\r\n\x1a\n";

inline std::string png_header(const PngKind& kind) {
  return png_chunk(
      "IHDR", big_endian(kind.width, 4) + big_endian(kind.height, 4) +
                  std::string{static_cast<char>(kind.bits), static_cast<char>(kind.colour_type), 0,
                              0, static_cast<char>(kind.interlaced)});
}

// `rows`: the filter byte and the packed pixels of every row, all passes. `between`: chunks before
// the pixels.
inline std::string png_file(const PngKind& kind, std::string_view rows,
                            std::string_view between = {}) {
  return png_signature + png_header(kind) + std::string(between) +
         png_chunk("IDAT", zlib_bytes(rows)) + png_chunk("IEND", {});
}

// Keeps every pixel as it is: red, green, blue, rows from the top.
inline std::string png_file(std::uint32_t height, std::uint32_t width, std::string_view pixels) {
  std::string rows;
  for (std::size_t y = 0; y < height; ++y)
    rows += '\0' + std::string(pixels.substr(3 * y * width, std::size_t{3} * width));
  return png_file({width, height, 8, 2}, rows);
}

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

inline std::vector<float> resized(std::span<const std::byte> file, std::int64_t height,
                                  std::int64_t width, const ImageWindow& part = {}) {
  std::vector<float> planes(static_cast<std::size_t>(3 * height * width), -1);
  decode_resized(file, "test", height, width, planes, part);
  return planes;
}

inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, static_cast<double>(std::abs(a[i] - b[i])));
  return largest;
}

}  // namespace kolo::testing
