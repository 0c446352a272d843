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

namespace fs = std::filesystem;

namespace {

// The last `count` parts of a path, "b/run" of /a/b/run.
std::string end_of(const fs::path& path, std::size_t count) {
  std::vector<fs::path> parts;
  for (const auto& part : path) {
    if (!part.empty() && part != "/" && part != ".") parts.push_back(part);
  }
  fs::path end;
  for (auto i = parts.size() - std::min(count, parts.size()); i < parts.size(); ++i)
    end /= parts[i];
  return end.string();
}

bool are_distinct(const std::vector<std::string>& names) {
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end();
}

// What to call runs that have the same name.
std::vector<std::string> names_of(const std::vector<RunRecord*>& runs) {
  constexpr std::size_t longest = 6;
  std::vector<std::string> names;
  for (std::size_t count = 2; count <= longest; ++count) {
    names.clear();
    for (const auto* const run : runs)
      names.push_back(end_of(fs::absolute(run->source).lexically_normal(), count));
    if (are_distinct(names)) return names;
  }
  // The same run twice, say.
  names.clear();
  for (std::size_t i = 0; i < runs.size(); ++i)
    names.push_back(i == 0 ? runs[i]->name : fmt::format("{} ({})", runs[i]->name, i + 1));
  return names;
}

}  // namespace

void make_names_distinct(std::vector<RunRecord>& runs) {
  std::map<std::string, std::vector<RunRecord*>> same;
  for (auto& run : runs) same[run.name].push_back(&run);
  for (const auto& [name, these] : same) {
    if (these.size() == 1) continue;
    const auto names = names_of(these);
    for (std::size_t i = 0; i < these.size(); ++i) these[i]->name = names[i];
  }
}

}  // namespace kolo
