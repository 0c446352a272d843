#include "kolo/report/own_files.h"

#include <cstdint>
#include <fstream>

#include <zlib.h>

#include "report/drawing_mark.h"

namespace kolo {

namespace {

// Marks stand in the first bytes.
std::string beginning_of(const std::filesystem::path& file) {
  std::string text(4096, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// As PNG has its numbers.
std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>((number >> shift) & 0xFF);
  return bytes;
}

}  // namespace

std::string marked_svg(std::string picture) {
  const auto place = picture.find("<svg");
  if (place != std::string::npos) picture.insert(place, std::string(svg_mark) + "\n");
  return picture;
}

std::string marked_png(std::string picture) {
  constexpr std::size_t signature_and_header = 8 + 25;
  if (picture.size() < signature_and_header) return picture;
  const std::string chunk = "tEXt" + std::string(png_mark);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(chunk.data());
  const auto sum = static_cast<std::uint32_t>(::crc32_z(0, bytes, chunk.size()));
  const auto length = static_cast<std::uint32_t>(png_mark.size());
  return picture.insert(signature_and_header, big_endian(length) + chunk + big_endian(sum));
}

bool is_report_page(const std::filesystem::path& file) {
  const auto text = beginning_of(file);
  return text.starts_with("<!DOCTYPE html>") &&
         has(text, "<meta name=\"generator\" content=\"kolo\">");
}

bool is_drawing(const std::filesystem::path& file) {
  const auto text = beginning_of(file);
  return has(text, svg_mark) || (text.starts_with("\x89PNG") && has(text, png_mark));
}

bool is_timeline(const std::filesystem::path& file) {
  const auto text = beginning_of(file);
  return text.starts_with("[\n{\"") && has(text, "\"ph\":");
}

}  // namespace kolo
