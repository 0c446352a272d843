// Steps of a rank, by hand and against what must hold for all.
#include "predict_study.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace kolo {
namespace {

// 10 ms forward, 20 ms backward in which two buckets are ready after 5 and 20 ms, 2 ms update.
StepProfile simple_profile() {
  StepProfile profile;
  profile.name = "simple";
  profile.cores_per_node = 4;
  profile.forward_seconds = .010;
  profile.backward_seconds = .020;
  profile.optimizer_seconds = .002;
  profile.buckets = {{1'000'000, .005}, {1'000'000, .020}};
  return profile;
}

// A megabyte takes a millisecond among two nodes, and latency nothing.
NetworkModel simple_network() {
  return {"simple", {0, 1e12}, {0, 1e9}, 1e18};
}

TEST(StepSimulator, OneRankComputes) {
  const auto step = predict_step(simple_profile(), simple_network(), {1, 1, 4});
  EXPECT_DOUBLE_EQ(step.step_seconds, .032);
  EXPECT_EQ(step.communication_seconds, 0);
  EXPECT_EQ(step.exposed_communication_seconds, 0);
}

TEST(StepSimulator, OnlyTheLastBucketIsExposedWhereCoresAreSpare) {
  const auto step = predict_step(simple_profile(), simple_network(), {2, 1, 4});
  EXPECT_NEAR(step.communication_seconds, .002, 1e-6);
  // It takes 1 ms, during which the first bucket is updated, for 1 ms.
  EXPECT_NEAR(step.exposed_communication_seconds, 0, 1e-6);
  auto together = simple_profile();
  together.updates_by_bucket = false;
  EXPECT_NEAR(predict_step(together, simple_network(), {2, 1, 4}).exposed_communication_seconds,
              .001, 1e-6);
}

TEST(StepSimulator, RanksOfANodeShareAnUpdateWhereTheyDo) {
  auto profile = simple_profile();
  const auto whole = predict_step(profile, simple_network(), {2, 2, 4});
  profile.shared_update_passes = 7;  // Adam
  const auto shared = predict_step(profile, simple_network(), {2, 2, 4});
  // Half of 7 passes, and one over the other rank's gradients of it: 8 of 14.
  EXPECT_NEAR(whole.compute_seconds - shared.compute_seconds, .002 * 6 / 14, 1e-9);
  EXPECT_LT(shared.communication_seconds, .1 * whole.communication_seconds);
  EXPECT_LT(shared.step_seconds, whole.step_seconds);
  EXPECT_GE(shared.exposed_communication_seconds, 0);
  // Clipping needs averages before.
  profile.updates_by_bucket = false;
  const auto clipped = predict_step(profile, simple_network(), {2, 2, 4});
  EXPECT_DOUBLE_EQ(clipped.communication_seconds, whole.communication_seconds);
  EXPECT_NEAR(whole.compute_seconds - clipped.compute_seconds, .002 / 2, 1e-9);
  const auto apart = predict_step(profile, simple_network(), {2, 1, 4});
  EXPECT_DOUBLE_EQ(apart.compute_seconds, whole.compute_seconds);
}

// A rank a GPU: only what backward does not hide of the last bucket, 1 ms less the first one's
// update, whatever cores the node has.
TEST(StepSimulator, RanksOfDevicesShareNoCores) {
  auto profile = simple_profile();
  profile.device = "H100";
  profile.threads = 4;
  profile.cores_per_node = 1;
  const auto alone = predict_step(profile, simple_network(), {1, 4, 1});
  EXPECT_DOUBLE_EQ(alone.step_seconds, .032);
  const auto many = predict_step(profile, simple_network(), {8, 4, 1});
  EXPECT_DOUBLE_EQ(many.compute_seconds, .032);
  // 2 us within the node and 1 ms between two of them, for each bucket.
  EXPECT_NEAR(many.communication_seconds, .002 + 4e-6, 1e-6);
  EXPECT_NEAR(many.exposed_communication_seconds, 2e-6, 1e-6);
  profile.device.clear();
  const auto on_processors = predict_step(profile, simple_network(), {8, 4, 1});
  EXPECT_GT(on_processors.compute_seconds, 2 * many.compute_seconds);
}

TEST(StepSimulator, DevicesAddUpThemselves) {
  auto profile = simple_profile();
  auto network = simple_network();
  network.reduction_bytes_per_second = 1e9;  // of a processor: half a millisecond more a bucket
  const auto on_processors = predict_step(profile, network, {2, 1, 4});
  EXPECT_NEAR(on_processors.communication_seconds, .003, 1e-6);
  profile.device = "H100";
  EXPECT_NEAR(predict_step(profile, network, {2, 1, 4}).communication_seconds, .002, 1e-5);
}

TEST(StepSimulator, CommunicationTakesTheProcessorWhereNoneIsSpare) {
  auto profile = simple_profile();
  const SimulatorOptions all = {.turn_seconds = 0};
  const auto step = predict_step(profile, simple_network(), {2, 1, 1}, all);
  // Four cores were measured with one rank: no longer computing, but nothing is hidden.
  EXPECT_NEAR(step.step_seconds, .034, 1e-6);
  const SimulatorOptions half = {.processor_share = .5, .turn_seconds = 0};
  EXPECT_NEAR(predict_step(profile, simple_network(), {2, 1, 1}, half).step_seconds, .033, 1e-6);
  // MPI's thread and the computing one wait for each other's turns, but not where it has a core.
  const SimulatorOptions turns = {.turn_seconds = .003};
  EXPECT_NEAR(predict_step(profile, simple_network(), {2, 1, 1}, turns).step_seconds, .037, 1e-6);
  EXPECT_LT(predict_step(profile, simple_network(), {2, 1, 2}, turns).step_seconds, .034);
}

TEST(StepSimulator, SlowNetworksDecideAlone) {
  auto network = simple_network();
  network.between_nodes.bytes_per_second = 1e7;
  const auto step = predict_step(simple_profile(), network, {2, 1, 4});
  // The first bucket begins at 15 ms and both take 100 ms each, then the second is updated.
  EXPECT_NEAR(step.step_seconds, .015 + .200 + .001, 1e-5);
}

TEST(StepSimulator, SharedCoresStretchComputing) {
  auto profile = simple_profile();
  profile.ranks_per_node = 2;
  profile.cores_per_node = 2;
  EXPECT_NEAR(predict_step(profile, simple_network(), {4, 4, 2}).compute_seconds, .064, 1e-12);
  EXPECT_NEAR(predict_step(profile, simple_network(), {3, 3, 2}).compute_seconds, .064, 1e-12);
  EXPECT_NEAR(predict_step(profile, simple_network(), {2, 2, 2}).compute_seconds, .032, 1e-12);
  profile.ranks_per_node = 4;  // what was measured was stretched already
  EXPECT_NEAR(predict_step(profile, simple_network(), {4, 4, 2}).compute_seconds, .032, 1e-12);
}

TEST(StepSimulator, TheSlowestOfManyIsWaitedFor) {
  EXPECT_EQ(expected_maximum(1), 0);
  EXPECT_NEAR(expected_maximum(2), 1 / std::sqrt(3.14159265), .03);
  EXPECT_NEAR(expected_maximum(100), 2.508, .02);
  EXPECT_NEAR(expected_maximum(10'000), 3.852, .02);
  auto profile = simple_profile();
  profile.deviation_seconds = .001;
  profile.slowest_seconds = .032;
  const auto step = predict_step(profile, simple_network(), {10'000, 4, 8});
  EXPECT_NEAR(step.straggler_seconds, .00385, 1e-4);
  const auto without =
      predict_step(profile, simple_network(), {10'000, 4, 8}, {.stragglers = false});
  EXPECT_NEAR(step.step_seconds - without.step_seconds, step.straggler_seconds, 1e-12);
  // Among as many as were measured, what was measured counts.
  profile.ranks = 4;
  profile.slowest_seconds = .035;
  const auto straggling = [&](int ranks) {
    return predict_step(profile, simple_network(), {ranks, 4, 8}).straggler_seconds;
  };
  EXPECT_NEAR(straggling(4), .003, 1e-9);
  EXPECT_NEAR(straggling(8), .003 + .001 * (expected_maximum(8) - expected_maximum(4)), 1e-9);
  EXPECT_LT(straggling(2), .003);
  EXPECT_EQ(straggling(1), 0);
}

TEST(StepSimulator, StepsLieBetweenFullAndNoOverlap) {
  std::mt19937 random(7);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int trial = 0; trial < 300; ++trial) {
    StepProfile profile;
    profile.forward_seconds = between(0, .01);
    profile.backward_seconds = between(0, .02);
    profile.optimizer_seconds = between(0, .002);
    profile.data_wait_seconds = between(0, .003);
    profile.updates_by_bucket = trial % 2 == 0;
    const int buckets = 1 + trial % 12;
    for (int bucket = 1; bucket <= buckets; ++bucket)
      profile.buckets.push_back({1 + static_cast<std::int64_t>(between(1, 2e7)),
                                 profile.backward_seconds * bucket / buckets});
    const NetworkModel network = {
        "", {between(0, 1e-5), between(1e9, 1e11)}, {between(0, 1e-4), between(1e8, 1e10)}, 1e10};
    const int per_node = 1 + trial % 5;
    const RankLayout layout = {1 + static_cast<int>(between(0, 20'000)), per_node,
                               per_node + trial % 7};
    const SimulatorOptions options = {.processor_share = between(0, 1), .turn_seconds = 0};
    const auto step = predict_step(profile, network, layout, options);
    const double computing = step.compute_seconds + step.data_wait_seconds;
    EXPECT_GE(step.step_seconds, computing - 1e-12);
    EXPECT_GE(step.step_seconds, step.communication_seconds + profile.forward_seconds - 1e-9);
    EXPECT_LE(step.step_seconds, computing + step.communication_seconds + 1e-9);
    EXPECT_NEAR(step.step_seconds, computing + step.exposed_communication_seconds, 1e-9);
  }
}

}  // namespace
}  // namespace kolo
