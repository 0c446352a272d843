#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Pictures of single samples and a network's answers, as PNG: images, and fields beside their
// targets.
namespace kolo {

// An image or a plane of a field, its first row above.
struct Panel {
  enum class Scale : std::uint8_t { grey, colour, field, difference };

  Scale scale = Scale::grey;
  std::int64_t rows = 0, columns = 0;
  // rows x columns; of Scale::colour three of them one after another: red, green, blue.
  std::vector<float> values;
  // Values drawn with the first and the last shade; values beyond get the nearer one. A difference
  // has low = -high.
  double low = 0, high = 1;
};

// Panels side by side, row by row; one without cells is a gap.
struct SamplePicture {
  // Written into the file as its description; reports show it.
  std::string caption;
  bool is_mistake = false;  // has a red frame
  int panels_per_row = 1;
  std::vector<Panel> panels;
};

// Cells per edge that are drawn at most; in larger panels a cell is the mean of several values.
inline constexpr std::int64_t most_cells_of_panel = 128;

// The bytes of a PNG with kolo's mark (is_drawing()), of one panel at least. Small panels are drawn
// with several pixels a cell.
[[nodiscard]] std::string draw_picture(const SamplePicture& picture);

}  // namespace kolo
