#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "kolo/base/clock.h"
#include "kolo/report/results_table.h"
#include "kolo/train/observe/format.h"
#include "report/figure_parts.h"

namespace kolo {

namespace {

// The best value that more than half of the runs reach, a little easier so that it is short.
double common_target(std::span<const RunRecord* const> runs, std::string_view quantity) {
  std::vector<double> bests;
  for (const auto* const run : runs)
    if (const double best = run == nullptr ? not_measured : best_validation(*run, quantity);
        std::isfinite(best))
      bests.push_back(best);
  if (bests.empty()) return not_measured;
  std::ranges::sort(bests);
  if (is_better_larger(quantity)) std::ranges::reverse(bests);
  const double best = bests[bests.size() / 2];
  if (is_better_larger(quantity)) return std::min(best, std::floor(1000 * best + 1e-9) / 1000);
  if (!(best > 0)) return best;
  const double unit = std::pow(10, std::floor(std::log10(best)) - 2);
  return std::max(best, std::ceil(best / unit - 1e-9) * unit);
}

double seconds_to(const RunRecord& run, std::string_view quantity, double target) {
  for (const auto& point : validations(run, quantity))
    if (is_better_larger(quantity) ? point.value >= target : point.value <= target)
      return point.elapsed;
  return not_measured;
}

}  // namespace

void add_time_to_target(ResultsTable& table, std::span<const RunRecord* const> runs,
                        std::string_view quantity, double target) {
  const auto has_accuracy = [](const RunRecord* run) {
    return run != nullptr && run->find("accuracy", "validation") != nullptr;
  };
  if (quantity.empty()) quantity = std::ranges::any_of(runs, has_accuracy) ? "accuracy" : "loss";
  if (!std::isfinite(target)) target = common_target(runs, quantity);
  std::vector<double> times;
  for (const auto* const run : runs)
    times.push_back(run == nullptr ? not_measured : seconds_to(*run, quantity, target));
  const auto is_known = [](double time) { return std::isfinite(time); };
  const auto known = std::ranges::count_if(times, is_known);
  if (known == 0) return;
  const auto words = is_better_larger(quantity) ? fmt::format("{:.4g} %", 100 * target)
                                                : fmt::format("loss {:.4g}", target);
  double least = times.front();
  for (const double time : times) least = std::fmin(least, time);
  // What state a run is in, with its problem, stays the last column.
  const bool is_before_state = !table.columns.empty() && table.columns.back().title == "state";
  const auto place = static_cast<std::ptrdiff_t>(table.columns.size()) - (is_before_state ? 1 : 0);
  table.columns.insert(table.columns.begin() + place, {"time to " + words, true});
  for (std::size_t i = 0; i < times.size(); ++i) {
    const bool is_validated = runs[i] != nullptr && !validations(*runs[i], quantity).empty();
    const auto text = is_known(times[i]) ? format_duration(times[i])
                                         : std::string(is_validated ? "not reached" : "");
    auto& cells = table.rows[i].cells;
    cells.insert(cells.begin() + place, {text, known > 1 && times[i] == least});
  }
  table.note += fmt::format("{}Time to {}: of training, until a validation was as good.",
                            table.note.empty() ? "" : " ", words);
}

}  // namespace kolo
