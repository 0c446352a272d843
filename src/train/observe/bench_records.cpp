#include "kolo/train/observe/bench_records.h"

#include <cmath>
#include <span>

#include <fmt/format.h>

#include "base/json_value.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

using Json = nlohmann::ordered_json;

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
  const auto seconds = json_value<double>(document, name);
  if (!std::isfinite(seconds) || seconds < 0)
    throw JsonError(fmt::format("\"{}\" is {}; times are 0 or more", name, seconds));
  return seconds;
}

template <typename Integer>
Integer read_count(const Json& document, const char* name, Integer least = 1) {
  const auto count = json_value<Integer>(document, name);
  if (count < least)
    throw JsonError(fmt::format("\"{}\" is {}; it is at least {}", name, count, least));
  return count;
}

std::string text_if_there(const Json& document, const char* name) {
  return document.contains(name) ? json_value<std::string>(document, name) : std::string();
}

Json json_of(std::span<const CollectiveMeasurement::Point> points) {
  auto json = Json::array();
  for (const auto& point : points)
    json.push_back({{"bytes", point.bytes}, {"seconds", point.seconds}});
  return json;
}

std::vector<CollectiveMeasurement::Point> points_of(const Json& document, const char* name) {
  std::vector<CollectiveMeasurement::Point> read;
  for (const auto& point : json_list(document, name))
    read.push_back({json_value<double>(point, "bytes"), json_value<double>(point, "seconds")});
  return read;
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
  try {
    StepProfile profile;
    profile.name = json_value<std::string>(document, "name");
    profile.device = text_if_there(document, "device");
    profile.ranks = read_count<int>(document, "ranks");
    profile.ranks_per_node = read_count<int>(document, "ranks_per_node");
    profile.cores_per_node = read_count<int>(document, "cores_per_node");
    profile.threads = read_count<int>(document, "threads");
    profile.batch_size = read_count<std::int64_t>(document, "batch_size");
    for (const auto& field : time_fields) profile.*field.member = read_time(document, field.name);
    profile.updates_by_bucket = json_value<bool>(document, "updates_by_bucket");
    profile.shared_update_passes = read_count<std::int64_t>(document, "shared_update_passes", 0);
    for (const auto& bucket : json_list(document, "buckets"))
      profile.buckets.push_back(
          {read_count<std::int64_t>(bucket, "bytes"), read_time(bucket, "ready_seconds")});
    return profile;
  } catch (const JsonError& error) {
    throw Error(fmt::format("step profile: malformed: {}", error.what()));
  }
}

Json CollectiveMeasurement::to_json() const {
  Json json{{"ranks", layout.ranks},
            {"ranks_per_node", layout.ranks_per_node},
            {"cores_per_node", layout.cores_per_node}};
  if (!device.empty()) json["device"] = device;
  if (!channel.empty()) json["channel"] = channel;
  json["all_reduce"] = json_of(points);
  if (!messages.empty()) json["messages"] = json_of(messages);
  return json;
}

CollectiveMeasurement CollectiveMeasurement::from_json(const Json& document) {
  try {
    CollectiveMeasurement measurement;
    measurement.layout = {read_count<int>(document, "ranks"),
                          read_count<int>(document, "ranks_per_node"),
                          read_count<int>(document, "cores_per_node")};
    measurement.device = text_if_there(document, "device");
    measurement.channel = text_if_there(document, "channel");
    measurement.points = points_of(document, "all_reduce");
    if (document.contains("messages")) measurement.messages = points_of(document, "messages");
    return measurement;
  } catch (const JsonError& error) {
    throw Error(fmt::format("collectives: malformed: {}", error.what()));
  }
}

}  // namespace kolo
