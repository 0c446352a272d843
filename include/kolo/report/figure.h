#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/base/enum_names.h"
#include "kolo/report/run_record.h"
#include "kolo/train/observe/study.h"
#include "kolo/train/observe/sweep.h"

// Figures, and those that there are of runs and of studies.
namespace kolo {

// A colour of figures, on paper and on a screen at night.
struct PaletteColour {
  std::string_view light, dark;
};

// Those of runs and lines are Okabe and Ito's (https://jfly.uni-koeln.de/colour), which people of
// any colour vision tell apart, some a little darker to be read on white. A ninth run has the first
// one's again, with other marks.
inline constexpr std::array<PaletteColour, 8> run_palette{{{"#0072b2", "#4ba6e0"},
                                                           {"#d55e00", "#f08a3c"},
                                                           {"#009e73", "#2fc79c"},
                                                           {"#b3588f", "#dd8fbf"},
                                                           {"#e69f00", "#f2bd4a"},
                                                           {"#56b4e9", "#8ccff5"},
                                                           {"#5b5b5b", "#b9b9b9"},
                                                           {"#8c7a00", "#e5da55"}}};

// Colours of other things have negative places: place -1 is the first of these.
inline constexpr std::array<PaletteColour, 4> other_palette{{{"#7d9bb8", "#6d8fb0"},
                                                             {"#e8b04a", "#d9a440"},
                                                             {"#b5485d", "#d0647a"},
                                                             {"#8a8f98", "#878d97"}}};
inline constexpr int compute_colour = -1;
inline constexpr int data_wait_colour = -2;
inline constexpr int communication_colour = -3;
inline constexpr int ideal_colour = -4;

// The place in the palette of the run with this number.
[[nodiscard]] constexpr int run_colour(std::size_t run) {
  return static_cast<int>(run);
}

[[nodiscard]] constexpr const PaletteColour& colour_at(int place) {
  const auto number = static_cast<std::size_t>(place < 0 ? -1 - place : place);
  return place < 0 ? other_palette.at(number) : run_palette[number % run_palette.size()];
}

struct FigureSeries {
  std::string name;
  std::vector<double> x = {}, y = {};  // of one length; a y that is not a number is a gap
  std::vector<double> spread = {};     // standard deviation of y; empty: none is shown
  int colour = 0;                      // its place in the palette: a run's number, or less than 0
  bool dashed = false;                 // training beside validation, ideal beside measured
  bool marks = false;                  // a mark at each point
};

// One chart of a page. Pure data.
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

// Figures that belong together, under one heading.
struct FigureGroup {
  std::string title;  // "Learning"
  std::vector<Figure> figures;
};

// Axes of curves. relative: the time since the run's first point, as TensorBoard's view
// of that name; wall: the time of day.
enum class CurveAxis : std::uint8_t { epoch, step, relative, wall };

constexpr auto enum_names(CurveAxis) {
  return std::to_array<EnumName<CurveAxis>>({{CurveAxis::epoch, "epoch"},
                                             {CurveAxis::step, "step"},
                                             {CurveAxis::relative, "relative"},
                                             {CurveAxis::wall, "wall"}});
}

// The axes on which at least one point of the runs has a place, in the order above.
[[nodiscard]] std::vector<CurveAxis> known_axes(std::span<const RunRecord> runs);

struct RunFigureOptions {
  CurveAxis axis = CurveAxis::epoch;
  // Of the figure that tells when a run was how good: accuracies (0 to 1), or losses where no run
  // has an accuracy. Empty: every value that was better than all before it.
  std::vector<double> targets;
};

// Figures of these runs: how they learned (loss, accuracy, learning rate), how fast, what their
// GPUs took, and whatever else they wrote. Validation is solid, training dashed; a run's colour is
// that of its number. Accuracies are in per cent.
//
// For every axis the figures, their series and y are the same. A point without a place on the axis
// has an x that is not a number. Long curves are thinned (see thinned()), which their note says.
[[nodiscard]] std::vector<FigureGroup> run_figures(std::span<const RunRecord> runs,
                                                   const RunFigureOptions& options = {});

// "linear, warm-up of 3 epochs", "unscaled, no warm-up": how a point's learning rate goes, in
// words.
[[nodiscard]] std::string combination_name(const StudyPoint& point);

// Figures of a study against ranks: how it scales (throughput, efficiency, time per epoch, where a
// step's time goes), and accuracy, error and loss for each combination of learning-rate scaling and
// warm-up. Points without results are left out. Throughput does not depend on the learning rate:
// points of the same number of ranks are taken together, as mean and deviation.
[[nodiscard]] std::vector<FigureGroup> study_figures(const Study& study);

// Figures of a sweep: the curves of all trials, the best of them in colour; the best value of each
// trial against each swept key; and, of grids, errors or losses against each key of numbers, a line
// for each way to set the other keys. `runs`: of the sweep's trials, in their order; one without
// curves is left out.
[[nodiscard]] std::vector<FigureGroup> sweep_figures(const Sweep& sweep,
                                                     std::span<const RunRecord> runs);

}  // namespace kolo
