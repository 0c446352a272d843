#include "kolo/report/run_record.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include <fmt/format.h>

namespace kolo {

const Curve* RunRecord::find(std::string_view quantity, std::string_view part, bool by_step) const {
  const auto curve = std::ranges::find_if(curves, [&](const Curve& candidate) {
    return candidate.quantity == quantity && candidate.part == part && candidate.by_step == by_step;
  });
  return curve == curves.end() ? nullptr : &*curve;
}

namespace {

// The places of the smallest and the largest finite value, in order; the first place when none is
// finite.
std::pair<std::size_t, std::size_t> extremes(std::span<const CurvePoint> points) {
  std::size_t smallest = 0, largest = 0;
  const auto value = [&](std::size_t i) { return points[i].value; };
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (!std::isfinite(value(i))) continue;
    if (!std::isfinite(value(smallest)) || value(i) < value(smallest)) smallest = i;
    if (!std::isfinite(value(largest)) || value(i) > value(largest)) largest = i;
  }
  return std::minmax(smallest, largest);
}

}  // namespace

std::vector<CurvePoint> thinned(std::span<const CurvePoint> points, std::size_t limit) {
  if (points.size() <= limit) return {points.begin(), points.end()};
  const std::size_t stretches = std::max<std::size_t>(1, limit / 2);
  std::vector<CurvePoint> kept;
  for (std::size_t i = 0; i < stretches; ++i) {
    const auto from = i * points.size() / stretches;
    const auto to = (i + 1) * points.size() / stretches;
    const auto [first, second] = extremes(points.subspan(from, to - from));
    kept.push_back(points[from + first]);
    if (second != first) kept.push_back(points[from + second]);
  }
  return kept;
}

void make_names_distinct(std::vector<RunRecord>& runs) {
  std::map<std::string, int> uses;
  for (const auto& run : runs) ++uses[run.name];
  for (auto& run : runs)
    if (uses[run.name] > 1) run.name = run.source.string();
  uses.clear();
  for (auto& run : runs)  // the same run twice, say
    if (const int number = ++uses[run.name]; number > 1)
      run.name = fmt::format("{} ({})", run.name, number);
}

}  // namespace kolo
