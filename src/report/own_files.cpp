#include "kolo/report/own_files.h"

#include <fstream>

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

}  // namespace

std::string png_caption(std::string_view png) {
  const auto chunk = png.find("iTXt" + std::string(png_caption_key));
  if (chunk == std::string_view::npos || chunk < 4) return {};
  std::size_t length = 0;
  for (const char byte : png.substr(chunk - 4, 4))
    length = 256 * length + static_cast<unsigned char>(byte);
  if (length < png_caption_key.size()) return {};
  return std::string(
      png.substr(chunk + 4 + png_caption_key.size(), length - png_caption_key.size()));
}

bool is_report_page(const std::filesystem::path& file) {
  const auto text = beginning_of(file);
  return text.starts_with("<!DOCTYPE html>") &&
         has(text, "<meta name=\"generator\" content=\"kolo\">");
}

bool is_drawing(const std::filesystem::path& file) {
  const auto text = beginning_of(file);
  return text.starts_with("\x89PNG") && has(text, png_mark);
}

bool is_timeline(const std::filesystem::path& file) {
  const auto text = beginning_of(file);
  return text.starts_with("[\n{\"") && has(text, "\"ph\":");
}

}  // namespace kolo
