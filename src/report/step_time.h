#pragma once

#include <string>
#include <vector>

#include "kolo/report/figure.h"
#include "kolo/report/run_record.h"

namespace kolo {

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

}  // namespace kolo
