#include "kolo/data/image.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

namespace kolo {

std::string_view image_format_name(ImageFormat format) {
  switch (format) {
    case ImageFormat::jpeg:
      return "JPEG";
    case ImageFormat::png:
      return "PNG";
    case ImageFormat::bmp:
      return "BMP";
    case ImageFormat::ppm:
      return "PPM";
  }
  return "unknown";
}

std::optional<ImageFormat> image_format_of_content(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("\xff\xd8\xff")) return ImageFormat::jpeg;
  if (text.starts_with("\x89PNG\r\n\x1a\n")) return ImageFormat::png;
  if (text.starts_with("BM")) return ImageFormat::bmp;
  if (text.starts_with("P6") || text.starts_with("P5")) return ImageFormat::ppm;
  return std::nullopt;
}

std::optional<ImageFormat> image_format_of_name(const std::filesystem::path& path) {
  std::string extension = path.extension().native();
  std::transform(extension.begin(), extension.end(), extension.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (extension == ".jpg" || extension == ".jpeg") return ImageFormat::jpeg;
  if (extension == ".png") return ImageFormat::png;
  if (extension == ".bmp") return ImageFormat::bmp;
  if (extension == ".ppm" || extension == ".pgm") return ImageFormat::ppm;
  return std::nullopt;
}

}  // namespace kolo
