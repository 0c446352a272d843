// Profiles at other batch sizes, and the points of a study.
#include "predict_study.h"

#include <cmath>

#include <gmock/gmock.h>

#include "kolo/base/error.h"

namespace kolo {
namespace {

using ::testing::HasSubstr;
using ::testing::Property;
using ::testing::Throws;

// 1 ms and 0.1 ms per sample forward, twice that backward.
StepProfile profile_of(std::int64_t batch_size, int ranks_per_node = 1) {
  StepProfile profile;
  profile.name = "a network";
  profile.ranks_per_node = ranks_per_node;
  profile.cores_per_node = 8;
  profile.batch_size = batch_size;
  profile.forward_seconds = 1e-3 + 1e-4 * static_cast<double>(batch_size);
  profile.backward_seconds = 2 * profile.forward_seconds;
  profile.optimizer_seconds = 5e-4;
  profile.buckets = {{1 << 20, profile.backward_seconds / 2}, {4 << 20, profile.backward_seconds}};
  return profile;
}

StudyPrediction prediction_of(std::vector<StepProfile> profiles) {
  StudyPrediction prediction;
  prediction.profiles = std::move(profiles);
  prediction.network = network_named("infiniband-edr");
  prediction.cores_per_node = 8;
  prediction.batch_size = 64;
  return prediction;
}

TEST(StepProfile, OfADeviceGoesWithNoOther) {
  auto of_device = profile_of(64);
  of_device.device = "A100";
  EXPECT_THAT(
      [&] {
        (void)profile_at_batch(std::vector{of_device, profile_of(16)}, 32);
      },
      Throws<InputError>(
          Property(&InputError::what, HasSubstr("on A100 and on processors don't belong"))));
}

TEST(BenchMeasurements, CollectivesOfDevicesGoWithProfilesOfDevices) {
  const CollectiveMeasurement of_host{{2, 2, 8}, {{4096, 1e-5}}};
  auto of_devices = of_host;
  of_devices.device = "A100";
  of_devices.channel = "NCCL 2.28.9";
  BenchMeasurements measurements{{profile_of(64)}, {of_host, of_devices}};
  ASSERT_EQ(measurements.collectives_of_profiled().size(), 1U);
  EXPECT_EQ(measurements.collectives_of_profiled()[0].device, "");
  measurements.profiles[0].device = "A100";
  ASSERT_EQ(measurements.collectives_of_profiled().size(), 1U);
  EXPECT_EQ(measurements.collectives_of_profiled()[0].device, "A100");
}

TEST(StepProfile, FollowsAStraightLineInTheBatch) {
  const std::vector profiles = {profile_of(64), profile_of(16)};
  const auto profile = profile_at_batch(profiles, 32);
  EXPECT_NEAR(profile.forward_seconds, profile_of(32).forward_seconds, 1e-12);
  EXPECT_NEAR(profile.buckets[0].ready_seconds, profile_of(32).buckets[0].ready_seconds, 1e-12);
  EXPECT_DOUBLE_EQ(profile.optimizer_seconds, 5e-4);
  EXPECT_EQ(profile.batch_size, 32);
  // One alone is proportional.
  EXPECT_NEAR(profile_at_batch(std::vector{profile_of(64)}, 32).forward_seconds,
              profile_of(64).forward_seconds / 2, 1e-12);
}

TEST(StepProfile, RefusesWhatDoesNotBelongTogether) {
  auto other = profile_of(16);
  other.buckets.pop_back();
  EXPECT_THAT(
      [&] {
        (void)profile_at_batch(std::vector{profile_of(64), other}, 32);
      },
      Throws<InputError>(Property(&Error::what, HasSubstr("don't belong"))));
  EXPECT_THROW((void)profile_at_batch({}, 32), InputError);
}

TEST(PredictStudy, WeakScalingKeepsTheBatchAndLosesALittle) {
  auto prediction = prediction_of({profile_of(64)});
  prediction.samples_per_epoch = 1'000'000;
  const auto points = predict_points(prediction, std::vector{1, 2, 64, 10'000});
  ASSERT_EQ(points.size(), 4U);
  double last = 0;
  for (const auto& point : points) {
    EXPECT_EQ(point.batch_size, 64);
    EXPECT_EQ(point.nodes, point.ranks);
    EXPECT_GE(point.step_seconds, last);
    last = point.step_seconds;
    EXPECT_NEAR(point.samples_per_second, 64. * point.ranks / last, 1e-6);
    EXPECT_NEAR(point.epoch_seconds, std::ceil(1e6 / (64. * point.ranks)) * last, 1e-9);
  }
  EXPECT_NEAR(points[0].step_seconds, profile_of(64).compute_seconds(), 1e-12);
  EXPECT_EQ(points[0].exposed_communication_seconds, 0);
}

TEST(PredictStudy, StrongScalingSharesTheBatch) {
  auto prediction = prediction_of({profile_of(64), profile_of(8)});
  prediction.is_strong = true;
  const auto points = predict_points(prediction, std::vector{1, 8, 64});
  EXPECT_EQ(points[1].batch_size, 8);
  EXPECT_GE(points[1].step_seconds, profile_of(8).compute_seconds());
  EXPECT_GE(points[2].step_seconds, profile_of(1).compute_seconds());
  EXPECT_THAT([&] { (void)predict_points(prediction, std::vector{3}); },
              Throws<InputError>(Property(&Error::what, HasSubstr("64 samples"))));
  EXPECT_THROW((void)predict_points(prediction, std::vector{0}), InputError);
}

TEST(PredictStudy, TakesTheProfileWithAsManyNeighbours) {
  auto crowded = profile_of(64, 4);
  crowded.forward_seconds *= 2;
  auto prediction = prediction_of({profile_of(64), crowded});
  prediction.ranks_per_node = 4;
  EXPECT_DOUBLE_EQ(predict_ranks(prediction, 1).compute_seconds, profile_of(64).compute_seconds());
  EXPECT_DOUBLE_EQ(predict_ranks(prediction, 8).compute_seconds, crowded.compute_seconds());
  EXPECT_DOUBLE_EQ(predict_ranks(prediction, 3).compute_seconds, crowded.compute_seconds());
}

TEST(PredictStudy, ReadsWhatBenchPrints) {
  BenchMeasurements measurements;
  nlohmann::ordered_json bench{{"n_ranks", 2}};
  measurements.add(bench);
  EXPECT_TRUE(measurements.profiles.empty());
  bench["profile"] = profile_of(64).to_json();
  bench["collectives"] = CollectiveMeasurement{{2, 2, 8}, {{4096, 1e-5}}}.to_json();
  measurements.add(bench);
  EXPECT_EQ(measurements.profiles.size(), 1U);
  EXPECT_EQ(measurements.collectives.size(), 1U);
  EXPECT_THROW(measurements.add(nlohmann::ordered_json::object()), Error);
}

}  // namespace
}  // namespace kolo
