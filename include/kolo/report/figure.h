#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kolo/base/enum_names.h"
#include "kolo/report/run_record.h"
#include "kolo/train/observe/study.h"
#include "kolo/train/observe/sweep.h"

// Figures of runs, studies and sweeps.
namespace kolo {

// Colours: a run's is its index in the page's palette; negative ones are fixed.
inline constexpr int compute_colour = -1;
inline constexpr int data_wait_colour = -2;
inline constexpr int communication_colour = -3;
inline constexpr int ideal_colour = -4;

inline constexpr int palette_size = 8;

// Axes of curves. relative: seconds of training since the run's start, without pauses; wall:
// seconds since 1970, shown as dates and times of day.
enum class CurveAxis : std::uint8_t { epoch, step, relative, wall };

constexpr auto enum_names(CurveAxis) {
  return std::to_array<EnumName<CurveAxis>>({{CurveAxis::epoch, "epoch"},
                                             {CurveAxis::step, "step"},
                                             {CurveAxis::relative, "relative"},
                                             {CurveAxis::wall, "wall"}});
}

// The axes on which at least one point of the runs has a place, in the order above.
[[nodiscard]] std::vector<CurveAxis> known_axes(std::span<const RunRecord> runs);

struct FigureSeries {
  std::string name;
  std::vector<double> x = {}, y = {};  // of one length; a y that is not a number is a gap
  std::vector<double> spread = {};     // standard deviation of y; empty: none is shown
  int colour = 0;                      // its place in the palette: a run's number, or less than 0
  bool dashed = false;                 // training beside validation, ideal beside measured
  bool marks = false;                  // a mark at each point
  bool joined = true;                  // by a line
  // Places of a run's curve on every known axis, instead of x; NaN where a point has none.
  std::map<CurveAxis, std::vector<double>> x_on = {};
};

// One chart of a page. Pure data.
struct Figure {
  enum class Kind { lines, stacked_bars };
  std::string id;     // "validation-accuracy": names its file, unique on a page
  std::string title;  // "Validation accuracy"
  std::string x_label, y_label;
  std::map<CurveAxis, std::string> x_labels = {};  // of runs' curves, instead of x_label
  Kind kind = Kind::lines;
  bool x_logarithmic = false, y_logarithmic = false;
  bool smoothed = false;  // its curves are noisy: the page draws running means before them
  // Words below the bars, or below x = 0, 1, ...; empty: x are numbers.
  std::vector<std::string> categories = {};
  std::vector<FigureSeries> series = {};
  std::string note = {};  // a sentence below it; empty: none
};

// Figures that belong together, under one heading.
struct FigureGroup {
  std::string title;  // "Learning"
  std::vector<Figure> figures;
};

// Figures of these runs: how they learned (loss, accuracy, learning rate), how fast, and where a
// step's time went. Validation is solid, training dashed; a run's colour is that of its number.
// Losses that span more than one and a half powers of ten have a logarithmic axis. Accuracies are
// in per cent. Long curves are thinned (see thinned()), which their note says.
[[nodiscard]] std::vector<FigureGroup> run_figures(std::span<const RunRecord> runs);

// "linear, warm-up of 3 epochs", "unscaled, no warm-up": how a point's learning rate goes, in
// words.
[[nodiscard]] std::string combination_name(const StudyPoint& point);

// Figures of a study against ranks: how it scales (throughput, efficiency, time per epoch, where a
// step's time goes), and accuracy, error and loss for each combination of learning-rate scaling and
// warm-up. Points without results are left out. Throughput does not depend on the learning rate:
// points of the same number of ranks are taken together, as mean and deviation.
[[nodiscard]] std::vector<FigureGroup> study_figures(const Study& study);

// Figures of a sweep: the curves of all trials, of more than palette_size the best in colour; and
// the best value of each trial (of seeds the mean) against each other swept key, with a line for
// each way to set the rest of a grid, values that are words side by side.
// `runs`: of the sweep's trials, in their order; one without curves is left out.
[[nodiscard]] std::vector<FigureGroup> sweep_figures(const Sweep& sweep,
                                                     std::span<const RunRecord> runs);

}  // namespace kolo
