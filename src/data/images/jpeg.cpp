#include <cstdio>  // jpeglib.h needs it

#include <jpeglib.h>

#include <jerror.h>

#include <cstdlib>

#include <fmt/format.h>

#include "data/images/image_rows.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo::images {

namespace {

struct JpegErrors {
  jpeg_error_mgr manager;  // first: libjpeg hands out its address
  JumpTarget failure;
};

// Warnings about data that decodes all the same; all others mean that pixels are made up.
bool is_harmless(int message_code) {
  return message_code == JWRN_EXTRANEOUS_DATA || message_code == JWRN_JFIF_MAJOR ||
         message_code == JWRN_ADOBE_XFORM;
}

// A few hundred bytes can make a decoder go over a large image thousands of times.
constexpr int most_scans = 200;

extern "C" {
[[noreturn]] static void fail_jpeg(j_common_ptr jpeg) {
  auto* errors = reinterpret_cast<JpegErrors*>(jpeg->err);
  static_assert(std::tuple_size_v<decltype(errors->failure.message)> >= JMSG_LENGTH_MAX);
  jpeg->err->format_message(jpeg, errors->failure.message.data());
  std::longjmp(errors->failure.place, 1);
}

static void note_jpeg_message(j_common_ptr jpeg, int level) {
  if (level < 0 && !is_harmless(jpeg->err->msg_code)) fail_jpeg(jpeg);
}

static void count_jpeg_scans(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= most_scans) return;
  auto* errors = reinterpret_cast<JpegErrors*>(jpeg->err);
  std::snprintf(errors->failure.message.data(), errors->failure.message.size(),
                "more than %d scans", most_scans);
  std::longjmp(errors->failure.place, 1);
}
}

// libjpeg's state; freed however far it came.
struct Decompressor {
  Decompressor() {
    jpeg.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = fail_jpeg;
    errors.manager.emit_message = note_jpeg_message;
    progress.progress_monitor = count_jpeg_scans;
  }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
  ~Decompressor() { jpeg_destroy_decompress(&jpeg); }

  template <typename Call>
  void run(const Call& call) {
    if (!guarded(errors.failure, call)) throw InputError(errors.failure.message.data());
  }

  jpeg_decompress_struct jpeg{};
  JpegErrors errors{};
  jpeg_progress_mgr progress{};
};

// The smallest scale, in eighths, at which nothing is less than wanted. libjpeg can do all of 1 to
// 16, but has vector code for these only: 5/8 takes longer than 8/8.
unsigned scale_in_eighths(const ImageSize& size, const ImageSize& wanted) {
  const auto scaled = [](std::int64_t length, std::int64_t scale) {
    return (length * scale + 7) / 8;
  };
  if (wanted.height > 0 && wanted.width > 0) {
    for (const unsigned scale : {1U, 2U, 4U}) {
      if (scaled(size.height, scale) >= wanted.height && scaled(size.width, scale) >= wanted.width)
        return scale;
    }
  }
  return 8;
}

class JpegRows final : public ImageRows {
 public:
  JpegRows(std::span<const std::byte> file, const ImageSize& wanted, const ImageLimits& limits) {
    auto& jpeg = decompressor_.jpeg;
    decompressor_.run([&] {
      jpeg_create_decompress(&jpeg);
      jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
      jpeg_read_header(&jpeg, TRUE);
    });
    full_ = {jpeg.image_height, jpeg.image_width};
    check_size(full_.height, full_.width, limits);
    jpeg.progress = &decompressor_.progress;
    jpeg.mem->max_memory_to_use = narrow<long>(limits.most_memory);
    jpeg.scale_num = scale_in_eighths(full_, wanted);
    reduction_ = jpeg.scale_num / 8.;
    jpeg.scale_denom = 8;
    is_cmyk_ = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
    is_inverted_ = jpeg.saw_Adobe_marker != 0;
    jpeg.out_color_space = is_cmyk_ ? JCS_CMYK : JCS_EXT_RGBX;
    decompressor_.run([&] { jpeg_start_decompress(&jpeg); });
    size_ = {jpeg.output_height, jpeg.output_width};
  }

  void read(std::uint8_t* row) override {
    decompressor_.run([&] { jpeg_read_scanlines(&decompressor_.jpeg, &row, 1); });
    if (is_cmyk_) convert_cmyk(row);
  }

 private:
  // Adobe's programs store ink upside down, 255 for none, and mark their files.
  void convert_cmyk(std::uint8_t* row) const {
    const unsigned flip = is_inverted_ ? 0 : 255;
    for (std::int64_t x = 0; x < size_.width; ++x, row += 4) {
      const unsigned light = row[3] ^ flip;
      for (int c = 0; c < 3; ++c) {
        row[c] = static_cast<std::uint8_t>(((row[c] ^ flip) * light + 127) / 255);
      }
    }
  }

  Decompressor decompressor_;
  bool is_cmyk_ = false;
  bool is_inverted_ = false;
};

}  // namespace

std::unique_ptr<ImageRows> open_jpeg(std::span<const std::byte> file, const ImageSize& wanted,
                                     const ImageLimits& limits) {
  return std::make_unique<JpegRows>(file, wanted, limits);
}

}  // namespace kolo::images

namespace kolo {

namespace {

// libjpeg's state and the memory it writes to.
struct Compressor {
  Compressor() {
    jpeg.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = images::fail_jpeg;
  }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;
  ~Compressor() {
    jpeg_destroy_compress(&jpeg);
    std::free(bytes);  // libjpeg gets it from malloc
  }

  jpeg_compress_struct jpeg{};
  images::JpegErrors errors{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
};

}  // namespace

std::vector<std::byte> encode_jpeg(const Image& image, int quality, JpegColours colours) {
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
