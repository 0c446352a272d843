#pragma once

#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kolo/data/image.h"

namespace kolo::images {

// Target of the longjmp of a C library that fails, with its message.
struct JumpTarget {
  std::jmp_buf place;
  std::array<char, 256> message;
};

// Calls a C library whose error handler jumps to `failure`; false when it did. Between this and the
// handler there must be nothing that has a destructor, so the call may be no more than the
// library's own functions on objects that live outside.
template <typename Call>
[[nodiscard, gnu::noinline]] bool guarded(JumpTarget& failure, const Call& call) {
  if (setjmp(failure.place) != 0) return false;
  call();
  return true;
}

// An image being decoded, row by row from the top. InputError says what is wrong, without the file.
class ImageRows {
 public:
  virtual ~ImageRows() = default;
  [[nodiscard]] const ImageSize& size() const { return size_; }
  // Filled part of the size: a decoder that reduces leaves part of the last row and column empty.
  [[nodiscard]] double filled_height() const {
    return reduction_ * static_cast<double>(full_.height);
  }
  [[nodiscard]] double filled_width() const {
    return reduction_ * static_cast<double>(full_.width);
  }
  // Writes the next row: width pixels of red, green, blue and a byte without meaning. At most
  // `height` calls.
  virtual void read(std::uint8_t* row) = 0;

 protected:
  ImageSize size_, full_;  // as decoded; in the file
  double reduction_ = 1;   // of the decoder
};

// Open an image, whose bytes must outlive the result, and read no more than the header. `wanted`:
// the decoder may make the image smaller, but not less than this; 0 x 0 stands for the whole.
[[nodiscard]] std::unique_ptr<ImageRows> open_jpeg(std::span<const std::byte> file,
                                                   const ImageSize& wanted,
                                                   const ImageLimits& limits);
[[nodiscard]] std::unique_ptr<ImageRows> open_png(std::span<const std::byte> file,
                                                  const ImageLimits& limits);

// InputError unless the size is at least 1 x 1 and within the limits.
void check_size(std::int64_t height, std::int64_t width, const ImageLimits& limits);

}  // namespace kolo::images
