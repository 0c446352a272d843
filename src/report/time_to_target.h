#pragma once

#include <optional>
#include <span>

#include "kolo/report/figure.h"
#include "kolo/report/run_record.h"

namespace kolo {

// For each run, how long it took until validation first reached an accuracy (a loss, where no run
// has an accuracy): targets along x, time since the run's first point along y. Without targets
// every new best value of a run is one. None when no run tells.
[[nodiscard]] std::optional<Figure> time_to_target_figure(std::span<const RunRecord> runs,
                                                          std::span<const double> targets);

}  // namespace kolo
