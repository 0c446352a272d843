#include <utility>

#include <fmt/format.h>

#include "data/images/image_rows.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"

namespace kolo::images {

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
