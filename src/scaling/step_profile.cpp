#include "kolo/scaling/step_profile.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "scaling/json_field.h"

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
  // Where the unbounded optimum is out of bounds, the bounded one lies on the bound that is
  // crossed.
  if (slope < 0) return {y / count, 0};
  if (constant < 0) return through_origin;
  return {constant, slope};
}

using Json = nlohmann::ordered_json;

constexpr const char* of_profile = "a step profile";

struct TimeField {
  const char* name;
  double StepProfile::*member;
};

constexpr TimeField time_fields[] = {{"forward_seconds", &StepProfile::forward_seconds},
                                     {"backward_seconds", &StepProfile::backward_seconds},
                                     {"optimizer_seconds", &StepProfile::optimizer_seconds},
                                     {"data_wait_seconds", &StepProfile::data_wait_seconds},
                                     {"slowest_seconds", &StepProfile::slowest_seconds},
                                     {"deviation_seconds", &StepProfile::deviation_seconds}};

double read_time(const Json& document, const char* name) {
  const auto seconds = read_field<double>(document, of_profile, name);
  if (!std::isfinite(seconds) || seconds < 0)
    throw Error(
        fmt::format("scaling: \"{}\" of {} is {}; times are 0 or more", name, of_profile, seconds));
  return seconds;
}

template <typename Integer>
Integer read_count(const Json& document, const char* name) {
  const auto count = read_field<Integer>(document, of_profile, name);
  if (count < 1)
    throw Error(
        fmt::format("scaling: \"{}\" of {} is {}; it is at least 1", name, of_profile, count));
  return count;
}

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

Json StepProfile::to_json() const {
  Json json{{"name", name}};
  if (!device.empty()) json["device"] = device;
  json["ranks"] = ranks;
  json["ranks_per_node"] = ranks_per_node;
  json["cores_per_node"] = cores_per_node;
  json["threads"] = threads;
  json["batch_size"] = batch_size;
  for (const auto& field : time_fields) json[field.name] = this->*field.member;
  json["updates_by_bucket"] = updates_by_bucket;
  json["shared_update_passes"] = shared_update_passes;
  json["buckets"] = Json::array();
  for (const auto& bucket : buckets)
    json["buckets"].push_back({{"bytes", bucket.bytes}, {"ready_seconds", bucket.ready_seconds}});
  return json;
}

StepProfile StepProfile::from_json(const Json& document) {
  StepProfile profile;
  profile.name = read_field<std::string>(document, of_profile, "name");
  if (document.contains("device"))
    profile.device = read_field<std::string>(document, of_profile, "device");
  profile.ranks = read_count<int>(document, "ranks");
  profile.ranks_per_node = read_count<int>(document, "ranks_per_node");
  profile.cores_per_node = read_count<int>(document, "cores_per_node");
  profile.threads = read_count<int>(document, "threads");
  profile.batch_size = read_count<std::int64_t>(document, "batch_size");
  for (const auto& field : time_fields) profile.*field.member = read_time(document, field.name);
  profile.updates_by_bucket = read_field<bool>(document, of_profile, "updates_by_bucket");
  profile.shared_update_passes =
      read_field<std::int64_t>(document, of_profile, "shared_update_passes");
  if (profile.shared_update_passes < 0) {
    throw Error(fmt::format("scaling: \"shared_update_passes\" of {} is {}, expected 0 or more",
                            of_profile, profile.shared_update_passes));
  }
  const auto& buckets = json_field(document, of_profile, "buckets");
  if (!buckets.is_array())
    throw Error(fmt::format("scaling: \"buckets\" of {} is {}, expected an array", of_profile,
                            buckets.type_name()));
  for (const auto& bucket : buckets) {
    profile.buckets.push_back(
        {read_count<std::int64_t>(bucket, "bytes"), read_time(bucket, "ready_seconds")});
  }
  return profile;
}

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
  for (const auto& field : time_fields)
    result.*field.member = at_batch([&](const StepProfile& of) { return of.*field.member; });
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
