#include "kolo/data/image_writer.h"

#include <cstdio>  // jpeglib.h needs it
#include <cstdlib>
#include <utility>

#include <jpeglib.h>

#include <fmt/format.h>

#include "data/images/library_guard.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo {

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
