#include <cstdio>
#include <cstdlib>
#include <vector>

#include <zlib.h>

#include "fuzz_targets.h"
#include "kolo/base/error.h"
#include "kolo/data/image.h"

namespace kolo::fuzz {

namespace {

// Small, so that an input takes milliseconds at most.
constexpr ImageLimits limits{
    .most_side = 2048, .most_pixels = 1 << 18, .most_memory = 1 << 24, .most_file_bytes = 1 << 20};

void require(bool is_kept, const char* promise) {
  if (is_kept) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

void decode(std::span<const std::byte> file) {
  try {
    const Image image = decode_image(file, "input", limits);
    require(
        image.height >= 1 && image.width >= 1 && image.height <= limits.most_pixels / image.width,
        "a size within the limits");
    require(image.pixels.size() == static_cast<std::size_t>(3 * image.height * image.width),
            "three bytes a pixel");
  } catch (const InputError&) {
  }
}

void resize(std::span<const std::byte> file) {
  constexpr std::int64_t height = 9, width = 14;
  std::vector<float> planes(3 * height * width, -1);
  try {
    decode_resized(file, "input", height, width, planes, {}, limits);
  } catch (const InputError&) {
    return;
  }
  for (const float value : planes) {
    require(value >= -1e-3F && value <= 255.001F, "resized values between 0 and 255");
  }
}

void read(std::span<const std::byte> file, ImageFormat format) {
  if (image_format_of_content(file) != format) return;
  decode(file);
  resize(file);
}

std::uint32_t big_endian(const std::byte* place) {
  std::uint32_t number = 0;
  for (int i = 0; i < 4; ++i) number = number << 8 | std::to_integer<std::uint32_t>(place[i]);
  return number;
}

// The PNG file with correct checksums of its chunks, which random changes never hit.
std::vector<std::byte> with_right_checksums(std::span<const std::byte> file) {
  std::vector<std::byte> mended(file.begin(), file.end());
  constexpr std::size_t around_data = 12;  // length, type, checksum
  for (std::size_t at = 8; mended.size() - at >= around_data;) {
    const std::size_t length = big_endian(mended.data() + at);
    if (length > mended.size() - at - around_data) break;
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(mended.data() + at + 4),
                           static_cast<uInt>(length + 4));
    at += around_data + length;
    for (std::size_t i = 0; i < 4; ++i) {
      mended[at - 4 + i] = static_cast<std::byte>(sum >> (24 - 8 * i) & 255);
    }
  }
  return mended;
}

}  // namespace

void read_jpeg(std::span<const std::byte> file) {
  read(file, ImageFormat::jpeg);
}

void read_png(std::span<const std::byte> file) {
  if (file.size() < 8) return;
  read(file, ImageFormat::png);
  read(with_right_checksums(file), ImageFormat::png);
}

}  // namespace kolo::fuzz
