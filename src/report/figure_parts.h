#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/report/figure.h"
#include "kolo/report/run_record.h"

namespace kolo {

// Counts for each line of a figure how many later ones lie on it from end to end, as far as can be
// seen: it is drawn that much wider, or nobody would know that it is there. Beyond two nobody could
// tell them apart by their widths, and bands would hide the rest. The note says so.
void mark_hidden_lines(Figure& figure);

// Where the time of an optimizer step goes, in seconds. What is not_measured counts as nothing.
struct StepTime {
  std::string category;  // whose
  double whole = not_measured;
  double data_wait = not_measured;
  double exposed_communication = not_measured;
};

// The mean over a run's epochs. Its `whole` is not_measured where the run doesn't tell how long its
// epochs took and how many steps they had.
[[nodiscard]] StepTime step_time_of(const RunRecord& run);

// Stacked bars in milliseconds: computing, waiting for data, waiting for other ranks.
[[nodiscard]] Figure step_time_figure(const std::vector<StepTime>& times);

// For each run, how long it took until validation first reached an accuracy (a loss, where no run
// has an accuracy): targets along x, time since the run's first point along y. Without targets
// every new best value of a run is one. None when no run tells.
[[nodiscard]] std::optional<Figure> time_to_target_figure(std::span<const RunRecord> runs,
                                                          std::span<const double> targets);

}  // namespace kolo
