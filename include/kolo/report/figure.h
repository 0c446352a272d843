#pragma once

#include <string>
#include <vector>

namespace kolo {

struct FigureSeries {
  std::string name;
  std::vector<double> x, y;    // of one length; a y that is not a number is a gap
  std::vector<double> spread;  // standard deviation of y; empty: none is shown
  int colour = 0;              // its place in the palette: a run's number, or less than 0
  bool dashed = false;         // training beside validation, ideal beside measured, predicted
  bool marks = false;          // a mark at each point
  int hidden_by = 0;           // 1, 2 or more lines that are drawn later lie on it: it is wider
};

// One chart: what an HTML page shows interactively, and what gnuplot draws. Pure data.
struct Figure {
  enum class Kind { lines, stacked_bars };
  std::string id;     // "validation-accuracy": names its file, unique on a page
  std::string title;  // "Validation accuracy"
  std::string x_label, y_label;
  Kind kind = Kind::lines;
  bool x_logarithmic = false, y_logarithmic = false;
  bool x_is_time = false;               // x: seconds since 1970, shown as dates and times of day
  std::vector<std::string> categories;  // of stacked_bars: what stands below each bar, for each x
  std::vector<FigureSeries> series;
  std::string note;  // a sentence below it; empty: none
};

}  // namespace kolo
