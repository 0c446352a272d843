#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "data/images/image_rows.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo::images {

namespace {

// Little-endian numbers at offsets of a file.
class Fields {
 public:
  explicit Fields(std::span<const std::byte> file) : file_(file) {}

  [[nodiscard]] std::uint32_t u16(std::size_t offset) const { return number(offset, 2); }
  [[nodiscard]] std::uint32_t u32(std::size_t offset) const { return number(offset, 4); }
  [[nodiscard]] std::int32_t i32(std::size_t offset) const {
    return static_cast<std::int32_t>(number(offset, 4));
  }
  // `size` bytes from `offset` on, which must be there.
  [[nodiscard]] const std::uint8_t* bytes(std::size_t offset, std::size_t size) const {
    if (offset > file_.size() || file_.size() - offset < size) {
      throw InputError(fmt::format("truncated: {} bytes at offset {} are needed, the file has {}",
                                   size, offset, file_.size()));
    }
    return reinterpret_cast<const std::uint8_t*>(file_.data()) + offset;
  }

 private:
  [[nodiscard]] std::uint32_t number(std::size_t offset, std::size_t size) const {
    const auto* place = bytes(offset, size);
    std::uint32_t value = 0;
    for (std::size_t i = size; i-- > 0;) value = value << 8 | place[i];
    return value;
  }

  std::span<const std::byte> file_;
};

// Windows bitmaps as Windows 3 and later write them, without compression: rows of blue, green, red,
// padded to four bytes, the last row first unless the height is negative.
class BmpRows final : public ImageRows {
 public:
  BmpRows(std::span<const std::byte> file, const ImageLimits& limits) {
    const Fields fields(file);
    const std::size_t pixels_at = fields.u32(10), header = fields.u32(14);
    if (header < 40) {
      throw InputError(fmt::format("a header of {} bytes, expected 40 or more", header));
    }
    const std::int64_t height = fields.i32(22);
    size_ = {std::abs(height), fields.i32(18)};
    check_size(size_.height, size_.width, limits);
    is_top_first_ = height < 0;
    read_kind(fields, header);
    row_bytes_ = (narrow<std::size_t>(size_.width) * bytes_a_pixel_ + 3) / 4 * 4;
    pixels_ =
        fields.bytes(pixels_at, checked_multiply(row_bytes_, narrow<std::size_t>(size_.height)));
  }

  void read(std::uint8_t* row) override {
    const auto y = is_top_first_ ? done_ : size_.height - 1 - done_;
    const auto* source = pixels_ + narrow<std::size_t>(y) * row_bytes_;
    for (std::int64_t x = 0; x < size_.width; ++x, row += 4, source += bytes_a_pixel_) {
      const auto* colour = source;
      if (bytes_a_pixel_ == 1) {
        if (*source >= colours_) {
          throw InputError(
              fmt::format("a pixel has colour {} of a palette of {}", *source, colours_));
        }
        colour = palette_ + 4 * std::size_t{*source};
      }
      row[0] = colour[2];
      row[1] = colour[1];
      row[2] = colour[0];
    }
    ++done_;
  }

 private:
  void read_kind(const Fields& fields, std::size_t header) {
    const auto bits = fields.u16(28), compression = fields.u32(30);
    if (compression != 0 || (bits != 8 && bits != 24 && bits != 32)) {
      throw InputError(
          fmt::format("{} bits a pixel with compression {}, expected 8, 24 or 32 without "
                      "compression; save it as PNG or JPEG",
                      bits, compression));
    }
    bytes_a_pixel_ = bits / 8;
    if (bits != 8) return;
    colours_ = fields.u32(46) == 0 ? 256 : fields.u32(46);
    if (colours_ > 256) {
      throw InputError(fmt::format("a palette of {} colours, expected at most 256", colours_));
    }
    palette_ = fields.bytes(14 + header, 4 * colours_);
  }

  bool is_top_first_ = false;
  std::size_t bytes_a_pixel_ = 3, row_bytes_ = 0, colours_ = 0;
  const std::uint8_t* palette_ = nullptr;
  const std::uint8_t* pixels_ = nullptr;
  std::int64_t done_ = 0;
};

}  // namespace

std::unique_ptr<ImageRows> open_bmp(std::span<const std::byte> file, const ImageLimits& limits) {
  return std::make_unique<BmpRows>(file, limits);
}

namespace {

// Netpbm's binary formats P6 (colour) and P5 (grey): numbers in text, then rows of one or two bytes
// a channel, high byte first.
class PpmRows final : public ImageRows {
 public:
  PpmRows(std::span<const std::byte> file, const ImageLimits& limits) : file_(file) {
    channels_ = character(1) == '6' ? 3 : 1;
    offset_ = 2;
    size_.width = read_number("width");
    size_.height = read_number("height");
    check_size(size_.height, size_.width, limits);
    largest_ = read_number("largest value");
    if (largest_ < 1 || largest_ > 65535) {
      throw InputError(fmt::format("the largest value is {}, expected 1 to 65535", largest_));
    }
    if (!is_space(character(offset_))) throw InputError("no white space after the header");
    ++offset_;
    const auto values = checked_multiply(checked_multiply(size_.height, size_.width),
                                         static_cast<std::int64_t>(channels_ * bytes_a_value()));
    const auto left = file_.size() - offset_;
    if (std::cmp_less(left, values)) {
      throw InputError(fmt::format("truncated: {} bytes of pixels, expected {}", left, values));
    }
  }

  void read(std::uint8_t* row) override {
    for (std::int64_t x = 0; x < size_.width; ++x, row += 4) {
      for (std::size_t c = 0; c < channels_; ++c) row[c] = read_value();
      if (channels_ == 1) row[1] = row[2] = row[0];
    }
  }

 private:
  static bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  [[nodiscard]] std::size_t bytes_a_value() const { return largest_ > 255 ? 2 : 1; }

  // -1 after the end.
  [[nodiscard]] int character(std::size_t offset) const {
    return offset < file_.size() ? std::to_integer<int>(file_[offset]) : -1;
  }

  std::int64_t read_number(const char* what) {
    while (is_space(character(offset_)) || character(offset_) == '#') {
      const bool is_comment = character(offset_) == '#';
      ++offset_;
      while (is_comment && character(offset_) != -1 && character(offset_) != '\n') ++offset_;
    }
    constexpr std::int64_t most = 1'000'000'000;
    std::int64_t number = 0;
    const auto begin = offset_;
    for (int c = character(offset_); c >= '0' && c <= '9' && number < most;
         c = character(++offset_)) {
      number = 10 * number + (c - '0');
    }
    if (offset_ == begin) {
      throw InputError(fmt::format("no number at offset {}, expected the {}", begin, what));
    }
    return number;
  }

  std::uint8_t read_value() {
    std::int64_t value = character(offset_++);
    if (largest_ > 255) value = 256 * value + character(offset_++);
    if (value > largest_) {
      throw InputError(fmt::format("a value of {} at offset {}, expected at most {}", value,
                                   offset_ - bytes_a_value(), largest_));
    }
    return static_cast<std::uint8_t>((255 * value + largest_ / 2) / largest_);
  }

  std::span<const std::byte> file_;
  std::size_t channels_ = 3, offset_ = 0;
  std::int64_t largest_ = 255;
};

}  // namespace

std::unique_ptr<ImageRows> open_ppm(std::span<const std::byte> file, const ImageLimits& limits) {
  return std::make_unique<PpmRows>(file, limits);
}

}  // namespace kolo::images
