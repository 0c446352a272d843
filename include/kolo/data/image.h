#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace kolo {

// Pixels of 0..255, height x width x (red, green, blue), rows from the top.
struct Image {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;
};

// The formats that can be read: JPEG (baseline and progressive; grey, RGB, CMYK), PNG (all), BMP
// (uncompressed, 8, 24 or 32 bits a pixel), PPM and PGM (binary, P6 and P5).
enum class ImageFormat { jpeg, png, bmp, ppm };

[[nodiscard]] std::string_view image_format_name(ImageFormat format);
// By the first bytes; none when they are of no format that can be read.
[[nodiscard]] std::optional<ImageFormat> image_format_of_content(std::span<const std::byte> file);
// By what follows the last dot: jpg, jpeg, png, bmp, ppm, pgm, in any case of letters; none for
// others.
[[nodiscard]] std::optional<ImageFormat> image_format_of_name(const std::filesystem::path& path);

enum class JpegColours { all, grey };

// An image as a baseline JPEG file, colours at half resolution as usual, or its brightness alone as
// a file of one component. Error for a quality
// outside 1 to 100 and for an image whose pixels don't fit its size.
[[nodiscard]] std::vector<std::byte> encode_jpeg(const Image& image, int quality,
                                                 JpegColours colours = JpegColours::all);

}  // namespace kolo
