#include "kolo/data/image.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>  // jpeglib.h needs it
#include <cstdlib>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <jpeglib.h>

#include "data/images/library_guard.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

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

namespace {

struct JpegErrors {
  jpeg_error_mgr manager;  // first: libjpeg hands out its address
  images::FailurePlace failure;
};

extern "C" {
[[noreturn]] static void fail_encoding(j_common_ptr jpeg) {
  auto* errors = reinterpret_cast<JpegErrors*>(jpeg->err);
  jpeg->err->format_message(jpeg, errors->failure.message.data());
  std::longjmp(errors->failure.place, 1);
}
}

// libjpeg's state and the memory it writes to.
struct Compressor {
  Compressor() {
    jpeg.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = fail_encoding;
  }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;
  ~Compressor() {
    jpeg_destroy_compress(&jpeg);
    std::free(bytes);  // libjpeg gets it from malloc
  }

  jpeg_compress_struct jpeg{};
  JpegErrors errors{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
};

}  // namespace

std::vector<std::byte> encode_jpeg(const Image& image, int quality, JpegColours colours) {
  const auto pixels =
      checked_multiply(checked_multiply(image.height, image.width), std::int64_t{3});
  if (quality < 1 || quality > 100 || pixels < 1 || !std::cmp_equal(image.pixels.size(), pixels)) {
    throw Error(fmt::format("data: cannot write {} x {} pixels in {} bytes as JPEG of quality {}",
                            image.height, image.width, image.pixels.size(), quality));
  }
  Compressor compressor;
  auto& jpeg = compressor.jpeg;
  const bool is_done = images::guarded(compressor.errors.failure, [&] {
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &compressor.bytes, &compressor.size);
    jpeg.image_height = static_cast<JDIMENSION>(image.height);
    jpeg.image_width = static_cast<JDIMENSION>(image.width);
    jpeg.input_components = 3;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    if (colours == JpegColours::grey) jpeg_set_colorspace(&jpeg, JCS_GRAYSCALE);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
      auto* row = const_cast<std::uint8_t*>(image.pixels.data()) +
                  std::size_t{jpeg.next_scanline} * jpeg.image_width * 3;
      jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
  });
  if (!is_done) {
    throw Error(fmt::format("data: cannot write {} x {} pixels as JPEG: {}", image.height,
                            image.width, compressor.errors.failure.message.data()));
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(compressor.bytes);
  return {bytes, bytes + compressor.size};
}

}  // namespace kolo
