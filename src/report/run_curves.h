#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kolo/report/run_record.h"

namespace kolo {

// When the first point of all a run's curves was made, in seconds since 1970; not_measured when no
// point tells.
[[nodiscard]] double start_of(const RunRecord& run);

// A unit in which the longest of some times is easy to read.
struct TimeUnit {
  std::string name;  // "seconds"
  double seconds;    // of one
};

[[nodiscard]] TimeUnit unit_for(double longest_seconds);

// For the longest of the runs, from its first point to its last.
[[nodiscard]] TimeUnit unit_for(std::span<const RunRecord> runs);

// A run's validation: the curve with a value an epoch, else the one by steps, else null.
inline const Curve* validation_curve(const RunRecord& run, std::string_view quantity) {
  const auto* const by_epoch = run.find(quantity, "validation");
  return by_epoch != nullptr ? by_epoch : run.find(quantity, "validation", true);
}

// The points of that curve among which a run's best is looked for: those of a network that was
// trained, unless there are no others.
inline std::vector<CurvePoint> validations(const RunRecord& run, std::string_view quantity) {
  const auto* const curve = validation_curve(run, quantity);
  if (curve == nullptr) return {};
  const auto is_untrained = [](const CurvePoint& point) { return point.epoch == 0; };
  auto points = curve->points;
  if (!std::ranges::all_of(points, is_untrained)) std::erase_if(points, is_untrained);
  return points;
}

}  // namespace kolo
