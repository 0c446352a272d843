#include "kolo/tools/sample_pictures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <fmt/format.h>
#include <png.h>
#include <zlib.h>

#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/layout/spatial_plan.h"
#include "kolo/report/run_record.h"

namespace kolo {

namespace {

using PixelColour = std::array<std::uint8_t, 3>;

constexpr PixelColour red{0xc6, 0x28, 0x28};
constexpr PixelColour cold{0x21, 0x66, 0xac}, neutral{0xf7, 0xf7, 0xf7}, warm{0xb2, 0x18, 0x2b};

std::uint8_t byte_of(double fraction) {
  return static_cast<std::uint8_t>(std::lround(255 * std::clamp(fraction, 0., 1.)));
}

PixelColour between(const PixelColour& first, const PixelColour& last, double fraction) {
  PixelColour mixed{};
  for (std::size_t i = 0; i < mixed.size(); ++i)
    mixed[i] = static_cast<std::uint8_t>(std::lround(first[i] + fraction * (last[i] - first[i])));
  return mixed;
}

// Colour map cubehelix (D. A. Green 2011): brightness grows with the value.
PixelColour helix(double shade) {
  constexpr double start = 0.4, cycles = -0.9, saturation = 1.3;
  const double angle = 2 * std::numbers::pi * (start / 3 + cycles * shade);
  const double amplitude = saturation * shade * (1 - shade) / 2;
  const double c = amplitude * std::cos(angle), s = amplitude * std::sin(angle);
  return {byte_of(shade - 0.14861 * c + 1.78277 * s), byte_of(shade - 0.29227 * c - 0.90649 * s),
          byte_of(shade + 1.97294 * c)};
}

// Mean of a cell's values.
double mean_of(const Panel& panel, std::int64_t plane, std::int64_t row, std::int64_t column,
               std::int64_t edge) {
  const auto top = row * edge, left = column * edge;
  const auto bottom = std::min(panel.rows, top + edge);
  const auto right = std::min(panel.columns, left + edge);
  double sum = 0;
  for (auto y = top; y < bottom; ++y)
    for (auto x = left; x < right; ++x)
      sum += static_cast<double>(
          panel.values[static_cast<std::size_t>((plane * panel.rows + y) * panel.columns + x)]);
  return sum / static_cast<double>((bottom - top) * (right - left));
}

// Place of a value on the panel's scale, 0 to 1.
double shade_of(const Panel& panel, double value) {
  const double width = panel.high - panel.low;
  const double place = width > 0 ? (value - panel.low) / width : .5;
  return std::isfinite(place) ? std::clamp(place, 0., 1.) : 0;
}

PixelColour colour_of_cell(const Panel& panel, std::int64_t row, std::int64_t column,
                           std::int64_t edge) {
  const auto shade_in = [&](std::int64_t plane) {
    return shade_of(panel, mean_of(panel, plane, row, column, edge));
  };
  const double shade = shade_in(0);
  switch (panel.scale) {
    case Panel::Scale::field:
      return helix(shade);
    case Panel::Scale::difference:
      return shade < .5 ? between(cold, neutral, 2 * shade) : between(neutral, warm, 2 * shade - 1);
    case Panel::Scale::colour:
      return {byte_of(shade), byte_of(shade_in(1)), byte_of(shade_in(2))};
    default:
      return {byte_of(shade), byte_of(shade), byte_of(shade)};
  }
}

class Canvas {
 public:
  Canvas(std::int64_t height, std::int64_t width)
      : height_(height), width_(width), bytes_(checked_multiply(3 * height, width), 255) {}

  void fill(std::int64_t top, std::int64_t left, std::int64_t height, std::int64_t width,
            const PixelColour& colour) {
    for (auto y = top; y < top + height; ++y)
      for (auto x = left; x < left + width; ++x)
        std::ranges::copy(colour, bytes_.begin() + 3 * (y * width_ + x));
  }

  [[nodiscard]] std::string png() const {
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = narrow<png_uint_32>(width_);
    image.height = narrow<png_uint_32>(height_);
    image.format = PNG_FORMAT_RGB;
    png_alloc_size_t size = 0;
    const auto write = [&](void* memory) {
      if (png_image_write_to_memory(&image, memory, &size, 0, bytes_.data(), 0, nullptr) == 0)
        throw Error(fmt::format("pictures: cannot make a PNG: {}", image.message));
    };
    write(nullptr);
    std::string png(size, '\0');
    write(png.data());
    png.resize(size);
    return png;
  }

 private:
  std::int64_t height_, width_;
  std::vector<std::uint8_t> bytes_;
};

std::int64_t longest_edge(const SamplePicture& picture) {
  std::int64_t edge = 1;
  for (const auto& panel : picture.panels) edge = std::max({edge, panel.rows, panel.columns});
  return edge;
}

// A number as PNG has it, big endian.
std::string four_bytes(std::uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>((number >> shift) & 0xFF);
  return bytes;
}

std::string chunk_of(std::string_view type, std::string_view content) {
  const auto chunk = std::string(type) + std::string(content);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(chunk.data());
  const auto sum = static_cast<std::uint32_t>(::crc32_z(0, bytes, chunk.size()));
  return four_bytes(narrow<std::uint32_t>(content.size())) + chunk + four_bytes(sum);
}

// The mark and the caption stand after the header, where is_drawing() and png_caption() look.
std::string marked(std::string png, const std::string& caption) {
  constexpr std::size_t signature_and_header = 8 + 25;
  return png.insert(
      signature_and_header,
      chunk_of("tEXt", png_mark) + chunk_of("iTXt", std::string(png_caption_key) + caption));
}

}  // namespace

std::string draw_picture(const SamplePicture& picture) {
  constexpr std::int64_t least_pixels = 192, gap = 6, frame = 4;
  const auto edge = longest_edge(picture);
  // Edges of a cell, the same for all panels.
  const auto values = divide_up(edge, most_cells_of_panel), cells = divide_up(edge, values);
  const auto pixels = divide_up(least_pixels, cells);
  const auto count = narrow<std::int64_t>(picture.panels.size());
  const std::int64_t columns = std::min<std::int64_t>(picture.panels_per_row, count);
  const auto pitch = cells * pixels + gap;
  const auto margin = picture.is_mistake ? frame : 0;
  const auto height = divide_up(count, columns) * pitch - gap + 2 * margin;
  const auto width = columns * pitch - gap + 2 * margin;
  Canvas canvas(height, width);
  if (picture.is_mistake) canvas.fill(0, 0, height, width, red);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& panel = picture.panels[static_cast<std::size_t>(i)];
    for (std::int64_t row = 0; row * values < panel.rows; ++row)
      for (std::int64_t column = 0; column * values < panel.columns; ++column)
        canvas.fill(margin + i / columns * pitch + row * pixels,
                    margin + i % columns * pitch + column * pixels, pixels, pixels,
                    colour_of_cell(panel, row, column, values));
  }
  return marked(canvas.png(), picture.caption);
}

}  // namespace kolo
