#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/report/figure.h"
#include "kolo/report/run_record.h"

namespace kolo {

// Figures that belong together, under one heading.
struct FigureGroup {
  std::string title;  // "Learning"
  std::vector<Figure> figures;
};

// What curves stand against. relative: the time since the run's first point, as TensorBoard's view
// of that name; wall: the time of day.
enum class CurveAxis : std::uint8_t { epoch, step, relative, wall };

inline constexpr CurveAxis all_axes[] = {CurveAxis::epoch, CurveAxis::step, CurveAxis::relative,
                                         CurveAxis::wall};

// "epoch", "step", "relative", "wall".
[[nodiscard]] std::string_view axis_name(CurveAxis axis);

// The axes on which at least one point of the runs has a place, in the order above.
[[nodiscard]] std::vector<CurveAxis> known_axes(std::span<const RunRecord> runs);

struct RunFigureOptions {
  CurveAxis axis = CurveAxis::epoch;
  // Of the figure that tells when a run was how good: accuracies (0 to 1), or losses where no run
  // has an accuracy. Empty: every value that was better than all before it.
  std::vector<double> targets;
};

// What there is to see of these runs: in one group how they learned (loss, accuracy, learning
// rate), in one how fast, in one whatever else they wrote. Validation is solid, training dashed;
// a run's colour is that of its number. Accuracies are in per cent.
//
// The same runs give the same figures with the same series and y for every axis: only x and its
// label differ, and those of curves only. A point without a place on the axis has an x that is not
// a number. Long curves are thinned (see thinned()), which their note says.
[[nodiscard]] std::vector<FigureGroup> run_figures(std::span<const RunRecord> runs,
                                                   const RunFigureOptions& options = {});

}  // namespace kolo
