#include <cstring>
#include <utility>
#include <vector>

#include <png.h>

#include <fmt/format.h>

#include "data/images/image_rows.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo::images {

namespace {

struct PngSource {
  const std::byte* next;
  std::size_t left;
};

extern "C" {
[[noreturn]] static void fail_png(png_structp png, png_const_charp message) {
  auto* failure = static_cast<JumpTarget*>(png_get_error_ptr(png));
  std::strncpy(failure->message.data(), message, failure->message.size() - 1);
  std::longjmp(failure->place, 1);
}

// libpng warns of chunks that don't touch the pixels.
static void ignore_png_warning(png_structp, png_const_charp) {}

static void read_png_bytes(png_structp png, png_bytep bytes, std::size_t size) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (source->left < size) png_error(png, "the file ends too early (truncated)");
  std::memcpy(bytes, source->next, size);
  source->next += size;
  source->left -= size;
}
}

// libpng's state; freed however far it came.
struct PngReader {
  PngReader() = default;
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }

  template <typename Call>
  void run(const Call& call) {
    if (!guarded(failure, call)) throw InputError(failure.message.data());
  }

  png_structp png = nullptr;
  png_infop info = nullptr;
  PngSource source{};
  JumpTarget failure{};
};

// Whatever there is, as four bytes per pixel.
void ask_for_rgbx(png_structp png) {
  png_set_expand(png);
  png_set_scale_16(png);
  png_set_gray_to_rgb(png);
  png_set_filler(png, 255, PNG_FILLER_AFTER);
}

class PngRows final : public ImageRows {
 public:
  PngRows(std::span<const std::byte> file, const ImageLimits& limits) {
    reader_.source = {file.data(), file.size()};
    open();
    size_ = full_ = {png_get_image_height(reader_.png, reader_.info),
                     png_get_image_width(reader_.png, reader_.info)};
    check_size(size_.height, size_.width, limits);
    is_interlaced_ = png_get_interlace_type(reader_.png, reader_.info) != PNG_INTERLACE_NONE;
    reader_.run([&] {
      ask_for_rgbx(reader_.png);
      png_set_interlace_handling(reader_.png);
      png_read_update_info(reader_.png, reader_.info);
    });
    row_bytes_ = checked_multiply(narrow<std::size_t>(size_.width), std::size_t{4});
    if (png_get_rowbytes(reader_.png, reader_.info) != row_bytes_) {
      throw InputError("its kind of pixels can't be converted to RGB");
    }
    if (is_interlaced_) read_all(limits);
  }

  void read(std::uint8_t* row) override {
    if (is_interlaced_) {
      std::memcpy(row, image_.data() + static_cast<std::size_t>(done_) * row_bytes_, row_bytes_);
    } else {
      reader_.run([&] { png_read_row(reader_.png, row, nullptr); });
    }
    // The end of the data has a checksum too.
    if (++done_ == size_.height) reader_.run([&] { png_read_end(reader_.png, nullptr); });
  }

 private:
  void open() {
    reader_.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader_.failure, fail_png,
                                         ignore_png_warning);
    if (reader_.png != nullptr) reader_.info = png_create_info_struct(reader_.png);
    if (reader_.info == nullptr) throw Error("data: cannot set up libpng");
    reader_.run([&] {
      // The sizes are checked here, with an error that says more.
      png_set_user_limits(reader_.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
      // Texts, profiles and the like are passed over: libpng would take as much memory for them as
      // they say they need.
      png_set_keep_unknown_chunks(reader_.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_set_read_fn(reader_.png, &reader_.source, read_png_bytes);
      png_read_info(reader_.png, reader_.info);
    });
  }

  // The rows of an interlaced image are complete only at its end.
  void read_all(const ImageLimits& limits) {
    const auto height = narrow<std::size_t>(size_.height);
    const auto bytes = checked_multiply(row_bytes_, height);
    if (std::cmp_greater(bytes, limits.most_memory)) {
      throw InputError(fmt::format(
          "interlaced, {} bytes must be held at once, expected at most {}; save it without "
          "interlacing",
          bytes, limits.most_memory));
    }
    image_.resize(bytes);
    std::vector<png_bytep> rows(height);
    for (std::size_t y = 0; y < height; ++y) rows[y] = image_.data() + y * row_bytes_;
    reader_.run([&] { png_read_image(reader_.png, rows.data()); });
  }

  PngReader reader_;
  bool is_interlaced_ = false;
  std::size_t row_bytes_ = 0;
  std::vector<std::uint8_t> image_;  // of an interlaced file
  std::int64_t done_ = 0;
};

}  // namespace

std::unique_ptr<ImageRows> open_png(std::span<const std::byte> file, const ImageLimits& limits) {
  return std::make_unique<PngRows>(file, limits);
}

}  // namespace kolo::images
