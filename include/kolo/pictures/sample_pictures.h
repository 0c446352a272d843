#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kolo/pictures/draw_figures.h"

// What a network makes of single samples, as pictures: images with what they were taken for, and
// fields beside what they should be.
namespace kolo {

// An image or a plane of a field, its first row above.
struct Panel {
  enum class Scale : std::uint8_t { grey, colour, field, difference };

  std::string caption;
  bool stands_out = false;  // the caption is red, as of a mistake
  Scale scale = Scale::grey;
  std::int64_t rows = 0, columns = 0;
  // rows x columns; of Scale::colour three of them one after another: red, green, blue.
  std::vector<float> values;
  // What is drawn with the first and the last shade; what lies beyond has that shade too. Of a
  // difference: as far below 0 as above it.
  double low = 0, high = 1;
};

// Panels side by side, row by row; one without cells is a gap.
struct PanelSheet {
  std::string id;  // its file's name without the ending
  std::string title;
  int panels_per_row = 1;
  std::vector<Panel> panels;
};

// How often samples of each class (rows) were taken for each class (columns).
struct CountTable {
  std::string id;
  std::string title;
  std::vector<std::string> names;    // of the classes
  std::vector<std::int64_t> counts;  // names x names
};

// Larger panels are drawn with as many cells at most per edge, each the mean of those that it
// stands for.
inline constexpr std::int64_t most_cells_of_panel = 128;

// The picture's bytes, drawn by the gnuplot in PATH as draw_figure() does it, with its errors.
// Error also: a panel has other values than its size says.
[[nodiscard]] std::string draw_panels(const PanelSheet& sheet, FigureFormat format);
[[nodiscard]] std::string draw_table(const CountTable& table, FigureFormat format);

}  // namespace kolo
