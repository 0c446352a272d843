#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <zlib.h>

// PNG files written chunk by chunk, so that tests can have kinds and faults that no library writes.
namespace kolo::testing {

inline std::string big_endian(std::uint32_t number) {
  std::string bytes(4, '\0');
  for (std::size_t i = 4; i-- > 0; number >>= 8) bytes[i] = static_cast<char>(number & 255);
  return bytes;
}

inline std::string png_chunk(std::string_view type, std::string_view data) {
  const std::string body = std::string(type) + std::string(data);
  const auto checksum =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body +
         big_endian(static_cast<std::uint32_t>(checksum));
}

inline std::string zlib_bytes(std::string_view data) {
  uLongf size = compressBound(data.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(data.data()), data.size());
  packed.resize(size);
  return packed;
}

struct PngKind {
  std::uint32_t width, height;
  int bits, colour_type;  // 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha
  bool interlaced = false;
};

inline const std::string png_signature = "\x89PNG\r\n\x1a\n";

inline std::string png_header(const PngKind& kind) {
  return png_chunk(
      "IHDR", big_endian(kind.width) + big_endian(kind.height) +
                  std::string{static_cast<char>(kind.bits), static_cast<char>(kind.colour_type), 0,
                              0, static_cast<char>(kind.interlaced)});
}

// `rows`: the filter byte and the packed pixels of every row, all passes. `between`: chunks before
// the pixels.
inline std::string png_file(const PngKind& kind, std::string_view rows,
                            std::string_view between = {}) {
  return png_signature + png_header(kind) + std::string(between) +
         png_chunk("IDAT", zlib_bytes(rows)) + png_chunk("IEND", {});
}

// Keeps every pixel as it is: red, green, blue, rows from the top.
inline std::string png_file(std::uint32_t height, std::uint32_t width, std::string_view pixels) {
  std::string rows;
  for (std::size_t y = 0; y < height; ++y)
    rows += '\0' + std::string(pixels.substr(3 * y * width, std::size_t{3} * width));
  return png_file({width, height, 8, 2}, rows);
}

}  // namespace kolo::testing
