#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "kolo/report/results_table.h"

namespace kolo {

namespace {

constexpr double too_far_off = 0.25;

// What a step takes, and how many points of as many ranks say so.
struct StepSeconds {
  double sum = 0, count = 0;

  void add(double seconds) {
    if (!std::isfinite(seconds) || seconds <= 0) return;
    sum += seconds;
    ++count;
  }
  [[nodiscard]] bool is_known() const { return count > 0; }
  [[nodiscard]] double mean() const { return sum / count; }
};

struct Comparison {
  int ranks = 0;
  double predicted = 0, measured = 0;  // seconds of a step

  [[nodiscard]] double error() const { return predicted / measured - 1; }
  [[nodiscard]] bool is_far_off() const { return std::abs(error()) > too_far_off; }
};

std::vector<Comparison> comparisons_of(const Study& study) {
  std::map<int, StepSeconds> predicted, measured;
  for (const auto& point : study.points) {
    auto& seconds = point.state == StudyPointState::predicted ? predicted : measured;
    seconds[point.ranks].add(point.results.step_seconds);
  }
  std::vector<Comparison> comparisons;
  for (const auto& [ranks, seconds] : predicted) {
    const auto found = measured.find(ranks);
    if (seconds.is_known() && found != measured.end() && found->second.is_known())
      comparisons.push_back({ranks, seconds.mean(), found->second.mean()});
  }
  return comparisons;
}

}  // namespace

std::string prediction_error_note(const Study& study) {
  double largest = 0;
  for (const auto& comparison : comparisons_of(study))
    largest = std::max(largest, std::abs(comparison.error()));
  if (largest <= too_far_off) return {};
  return fmt::format("Predictions of what was run are off by up to {:.0f} %.", 100 * largest);
}

ResultsTable prediction_checks(const Study& study) {
  ResultsTable table{.title = "Predictions against measurements",
                     .columns = {{"ranks", true},
                                 {"predicted step, ms", true},
                                 {"measured step, ms", true},
                                 {"off by", true}},
                     .rows = {},
                     .note = {}};
  bool is_any_far_off = false;
  for (const auto& comparison : comparisons_of(study)) {
    is_any_far_off = is_any_far_off || comparison.is_far_off();
    table.rows.push_back(
        {{{fmt::format("{}", comparison.ranks)},
          {fmt::format("{:.4g}", 1000 * comparison.predicted)},
          {fmt::format("{:.4g}", 1000 * comparison.measured)},
          {fmt::format("{:+.1f} %{}", 100 * comparison.error(),
                       comparison.is_far_off() ? " !" : "")}},
         -1,
         comparison.is_far_off() ? ResultsTable::Mark::far_off : ResultsTable::Mark::none});
  }
  if (is_any_far_off) {
    table.note = fmt::format(
        "Marked (!): off by more than {:.0f} %. What is predicted for other numbers of ranks can't "
        "be "
        "trusted further than that. Steps of some milliseconds are hard to measure, and so are "
        "those "
        "of a machine that does other work.",
        100 * too_far_off);
  }
  return table;
}

}  // namespace kolo
