#include "kolo/train/observe/bench_records.h"

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

StepProfile profile() {
  StepProfile profile{.name = "cnn", .ranks = 2, .ranks_per_node = 2, .cores_per_node = 4};
  profile.batch_size = 64;
  profile.forward_seconds = .01;
  profile.backward_seconds = .02;
  profile.shared_update_passes = 7;
  profile.buckets = {{4096, .005}, {1 << 20, .02}};
  return profile;
}

TEST(StepProfile, GoesThroughJson) {
  const auto json = profile().to_json();
  EXPECT_EQ(StepProfile::from_json(json).to_json(), json);
  EXPECT_FALSE(json.contains("device"));
  auto of_device = json;
  of_device["device"] = "A100";
  EXPECT_EQ(StepProfile::from_json(of_device).device, "A100");
  for (const char* key : {"forward_seconds", "buckets", "batch_size"}) {
    auto broken = json;
    broken[key] = "many";
    EXPECT_TRUE(says(message_of<Error>([&] { (void)StepProfile::from_json(broken); }), {key}));
    broken.erase(key);
    EXPECT_TRUE(says(message_of<Error>([&] { (void)StepProfile::from_json(broken); }), {key}));
  }
  auto negative = json;
  negative["buckets"][0]["ready_seconds"] = -1;
  EXPECT_THROW((void)StepProfile::from_json(negative), Error);
  EXPECT_THROW((void)StepProfile::from_json(nlohmann::ordered_json::array()), Error);
}

TEST(CollectiveMeasurement, GoesThroughJson) {
  CollectiveMeasurement measurement{{6, 2, 3}, {{4096, 1e-5}, {8192, 2e-5}}};
  EXPECT_FALSE(measurement.to_json().contains("messages"));
  measurement.messages = {{4096, 1e-5}, {8192, 2e-5}};
  measurement.device = "A100";
  measurement.channel = "NCCL 2.28.9";
  EXPECT_TRUE(measurement.messages_are_within_node());
  const auto again = CollectiveMeasurement::from_json(measurement.to_json());
  EXPECT_EQ(again.to_json(), measurement.to_json());
  EXPECT_EQ(again.layout.nodes(), 3);
  EXPECT_EQ(again.channel, "NCCL 2.28.9");
  ASSERT_EQ(again.messages.size(), 2U);
  EXPECT_EQ(again.messages[1].seconds, 2e-5);
  auto broken = measurement.to_json();
  broken["all_reduce"][1].erase("seconds");
  EXPECT_TRUE(says(message_of<Error>([&] { (void)CollectiveMeasurement::from_json(broken); }),
                   {"\"seconds\""}));
  EXPECT_THROW((void)CollectiveMeasurement::from_json(nlohmann::ordered_json::array()), Error);
}

}  // namespace
}  // namespace kolo::testing
