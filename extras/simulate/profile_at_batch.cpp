#include "predict_study.h"

#include <algorithm>
#include <functional>
#include <span>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo {

namespace {

struct LinePoint {
  double x = 0, y = 0;
};

struct Line {
  double constant = 0, slope = 0;
  [[nodiscard]] double at(double x) const { return constant + slope * x; }
};

// The line with constant and slope of at least 0 that is nearest to the points, by the squares of
// the distances. Through the origin where all x are equal. x and y are at least 0, and some x
// above.
Line rising_line(std::span<const LinePoint> points) {
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& point : points) {
    x += point.x;
    y += point.y;
    xx += point.x * point.x;
    xy += point.x * point.y;
  }
  const auto count = static_cast<double>(points.size());
  const Line through_origin = {0, xy / xx};
  const double spread = count * xx - x * x;
  if (spread <= 1e-12 * count * xx) return through_origin;
  const double slope = (count * xy - x * y) / spread;
  const double constant = (y - slope * x) / count;
  // The bounded optimum, if the unbounded one is out of bounds, lies on the bound that is
  // crossed.
  if (slope < 0) return {y / count, 0};
  if (constant < 0) return through_origin;
  return {constant, slope};
}

constexpr double StepProfile::*times[] = {
    &StepProfile::forward_seconds,   &StepProfile::backward_seconds,
    &StepProfile::optimizer_seconds, &StepProfile::data_wait_seconds,
    &StepProfile::slowest_seconds,   &StepProfile::deviation_seconds};

bool have_same_plan(const StepProfile& a, const StepProfile& b) {
  return a.buckets.size() == b.buckets.size() &&
         std::equal(a.buckets.begin(), a.buckets.end(), b.buckets.begin(),
                    [](const auto& one, const auto& other) { return one.bytes == other.bytes; });
}

void require_related(std::span<const StepProfile> profiles) {
  if (profiles.empty()) {
    throw InputError(
        "scaling: no step has been measured; kolo bench FILE --profile --json does that");
  }
  const StepProfile& first = profiles.front();
  for (const auto& other : profiles) {
    if (other.device != first.device) {
      const auto place = [](const StepProfile& of) {
        return of.device.empty() ? "processors" : of.device;
      };
      throw InputError(fmt::format(
          "scaling: profiles of {} on {} and on {} don't belong to one training; measure both on "
          "the same kind of device",
          first.name, place(first), place(other)));
    }
    if (have_same_plan(first, other) && other.ranks_per_node == first.ranks_per_node) continue;
    throw InputError(fmt::format(
        "scaling: profiles of {} ({} buckets, {} ranks per node) and {} ({} buckets, {} "
        "ranks per node) "
        "don't belong to one training; measure both with the same model and number of ranks",
        first.name, first.buckets.size(), first.ranks_per_node, other.name, other.buckets.size(),
        other.ranks_per_node));
  }
}

}  // namespace

StepProfile profile_at_batch(std::span<const StepProfile> profiles, std::int64_t batch_size) {
  require_related(profiles);
  const auto at_batch = [&](const std::function<double(const StepProfile&)>& time) {
    std::vector<LinePoint> points;
    for (const auto& profile : profiles)
      points.push_back({static_cast<double>(profile.batch_size), time(profile)});
    return rising_line(points).at(static_cast<double>(batch_size));
  };
  StepProfile result = profiles.front();
  result.batch_size = batch_size;
  for (const auto time : times)
    result.*time = at_batch([&](const StepProfile& of) { return of.*time; });
  result.optimizer_seconds = 0;
  for (const auto& profile : profiles)
    result.optimizer_seconds += profile.optimizer_seconds / static_cast<double>(profiles.size());
  result.slowest_seconds = std::max(result.slowest_seconds, result.compute_seconds());
  double before = 0;
  for (std::size_t index = 0; index < result.buckets.size(); ++index) {
    double& ready = result.buckets[index].ready_seconds;
    ready = at_batch([&](const StepProfile& of) { return of.buckets[index].ready_seconds; });
    ready = before = std::clamp(ready, before, std::max(before, result.backward_seconds));
  }
  return result;
}

}  // namespace kolo
