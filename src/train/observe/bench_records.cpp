#include "kolo/train/observe/bench_records.h"

#include "train/observe/json_fields.h"

namespace kolo {

namespace {

constexpr auto bucket_fields = [](auto& field, auto& bucket) {
  field.at_least("bytes", bucket.bytes, std::int64_t{1});
  field.at_least("ready_seconds", bucket.ready_seconds, 0.);
};

constexpr auto profile_fields = [](auto& field, auto& profile) {
  field("name", profile.name);
  field.if_any("device", profile.device);
  field.at_least("ranks", profile.ranks, 1);
  field.at_least("ranks_per_node", profile.ranks_per_node, 1);
  field.at_least("cores_per_node", profile.cores_per_node, 1);
  field.at_least("threads", profile.threads, 1);
  field.at_least("batch_size", profile.batch_size, std::int64_t{1});
  field.at_least("forward_seconds", profile.forward_seconds, 0.);
  field.at_least("backward_seconds", profile.backward_seconds, 0.);
  field.at_least("optimizer_seconds", profile.optimizer_seconds, 0.);
  field.at_least("data_wait_seconds", profile.data_wait_seconds, 0.);
  field.at_least("slowest_seconds", profile.slowest_seconds, 0.);
  field.at_least("deviation_seconds", profile.deviation_seconds, 0.);
  field("updates_by_bucket", profile.updates_by_bucket);
  field.at_least("shared_update_passes", profile.shared_update_passes, std::int64_t{0});
  field.list("buckets", profile.buckets, bucket_fields);
};

constexpr auto size_fields = [](auto& field, auto& point) {
  field("bytes", point.bytes);
  field("seconds", point.seconds);
};

constexpr auto measurement_fields = [](auto& field, auto& measurement) {
  field.at_least("ranks", measurement.layout.ranks, 1);
  field.at_least("ranks_per_node", measurement.layout.ranks_per_node, 1);
  field.at_least("cores_per_node", measurement.layout.cores_per_node, 1);
  field.if_any("device", measurement.device);
  field.if_any("channel", measurement.channel);
  field.list("all_reduce", measurement.points, size_fields);
  field.list_if_any("messages", measurement.messages, size_fields);
};

}  // namespace

nlohmann::ordered_json StepProfile::to_json() const {
  return json_of(*this, profile_fields);
}

StepProfile StepProfile::from_json(const nlohmann::ordered_json& document) {
  return document_from<StepProfile>("step profile", document, profile_fields);
}

nlohmann::ordered_json CollectiveMeasurement::to_json() const {
  return json_of(*this, measurement_fields);
}

CollectiveMeasurement CollectiveMeasurement::from_json(const nlohmann::ordered_json& document) {
  return document_from<CollectiveMeasurement>("collectives", document, measurement_fields);
}

}  // namespace kolo
