#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kolo/report/figure.h"
#include "kolo/report/run_record.h"

namespace kolo {

// Parts of an optimizer step's time, in seconds; not_measured counts as nothing.
struct StepTime {
  std::string category;  // run or number of ranks
  double whole = not_measured;
  double data_wait = not_measured;
  double exposed_communication = not_measured;
};

// Stacked bars in milliseconds: computing, waiting for data, waiting for other ranks.
[[nodiscard]] Figure step_time_figure(const std::vector<StepTime>& times);

// Marked lines by name, in the order in which the names come.
class NamedLines {
 public:
  void add(const std::string& name, double x, double y, double spread = 0);
  [[nodiscard]] std::vector<FigureSeries> series() const;

 private:
  struct Value {
    double y = not_measured, spread = 0;
  };
  using Line = std::pair<std::string, std::map<double, Value>>;
  std::vector<Line> lines_;
};

// Validations among which a run's best is sought: without that of the untrained network, unless
// there is no other.
[[nodiscard]] std::vector<CurvePoint> validations(const RunRecord& run, std::string_view quantity);

// Accuracies, not losses.
[[nodiscard]] bool is_better_larger(std::string_view quantity);
// The best of them; not_measured where there are none.
[[nodiscard]] double best_validation(const RunRecord& run, std::string_view quantity);

}  // namespace kolo
