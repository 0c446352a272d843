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

// Formats that can be read: JPEG (baseline and progressive; grey, RGB, CMYK), PNG (all).
enum class ImageFormat { jpeg, png };

[[nodiscard]] std::string_view image_format_name(ImageFormat format);
// Format by the first bytes; none for other contents.
[[nodiscard]] std::optional<ImageFormat> image_format_of_content(std::span<const std::byte> file);
// Tells whether a name ends as images' do: jpg, jpeg, jfif, jpe, png, in any case of letters.
[[nodiscard]] bool has_image_name(const std::filesystem::path& path);

enum class JpegColours { all, grey };

// An image as a baseline JPEG file, colours at half resolution as usual, or its brightness alone.
// `quality`: 1 to 100. Error for an image that is too large for the format.
[[nodiscard]] std::vector<std::byte> encode_jpeg(const Image& image, int quality,
                                                 JpegColours colours = JpegColours::all);

// Decoding. InputError names the file and the reason for everything but one whole image of a format
// that can be read: unknown content, damaged or truncated data, dimensions beyond the limits
// (checked before any memory is taken for them). Grey, CMYK, palettes, 16 bits a channel and
// transparency (which is dropped) become 8-bit RGB; colour profiles and the camera's orientation
// are ignored. All functions may be called from several threads at once.

// Limits of one file.
struct ImageLimits {
  std::int64_t most_side = 65500;                          // pixels
  std::int64_t most_pixels = std::int64_t{1} << 26;        // 67 million
  std::int64_t most_memory = std::int64_t{512} << 20;      // bytes, in a decoder
  std::int64_t most_file_bytes = std::int64_t{256} << 20;  // read_image_file
};

// `name` stands for the file in messages.
[[nodiscard]] Image decode_image(std::span<const std::byte> file, std::string_view name,
                                 const ImageLimits& limits = {});

struct ImageSize {
  std::int64_t height = 0, width = 0;
};
// Reads the header alone.
[[nodiscard]] ImageSize image_size(std::span<const std::byte> file, std::string_view name,
                                   const ImageLimits& limits = {});

// A part of an image, in fractions of its height and width.
struct ImageWindow {
  double top = 0, left = 0;      // 0 to below 1
  double height = 1, width = 1;  // above 0
};

// Resizes a part of the image, by default all, to height x width, as 0..255 floats {3, height,
// width} in `planes`; pixels outside of the part count for nothing. The filter is bilinear, widened
// by the factor of reduction (Pillow's BILINEAR), without rounding to whole numbers. Rows are
// resized as they are decoded, and JPEG is decoded at the smallest of 1/8, 1/4, 1/2 and its full
// size at which the part is large enough.
void decode_resized(std::span<const std::byte> file, std::string_view name, std::int64_t height,
                    std::int64_t width, std::span<float> planes, const ImageWindow& part = {},
                    const ImageLimits& limits = {});

// Reads a regular file. InputError if it can't be read, is empty or larger than the limit.
void read_image_file(const std::filesystem::path& path, std::vector<std::byte>& bytes,
                     const ImageLimits& limits = {});

// Draws a random resized crop of a sample of these lengths in an epoch, as torchvision's
// RandomResizedCrop does (Szegedy et al., "Going deeper with convolutions", 2015): area uniform
// from `least_area` of the image's to all of it, aspect uniform in its logarithm from 3:4 to 4:3,
// place uniform; ten tries at most to fit the image, then the largest middle part of an allowed
// aspect. Lengths and places are whole pixels. Depends on seed, epoch, index and lengths alone.
[[nodiscard]] ImageWindow draw_random_crop(double least_area, std::uint64_t seed,
                                           std::int64_t epoch, std::int64_t index,
                                           std::int64_t height, std::int64_t width);

}  // namespace kolo
