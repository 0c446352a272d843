// Steps of ranks that share samples, by hand and against what must hold for all.
#include "predict_spatial.h"

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/says.h"

namespace kolo {
namespace {

using testing::message_of;
using ::testing::SizeIs;
using Lengths = std::vector<std::int64_t>;

// Convolutions of one kernel on fields of three channels along each of three axes.
std::vector<FieldLayer> layers_of(std::size_t count, std::int64_t kernel) {
  const AxisLayer axis{.kernel = kernel, .padding = kernel / 2};
  return std::vector<FieldLayer>(
      count, FieldLayer{.name = "layer", .axes = {axis, axis, axis}, .inputs = 3, .outputs = 3});
}

// 10 ms forward, 20 ms backward in which two buckets are ready after 5 and 20 ms.
StepProfile simple_profile() {
  StepProfile profile;
  profile.name = "simple";
  profile.cores_per_node = 64;
  profile.batch_size = 2;
  profile.forward_seconds = .010;
  profile.backward_seconds = .020;
  profile.data_wait_seconds = .004;
  profile.slowest_seconds = .030;
  profile.buckets = {{1'000'000, .005}, {1'000'000, .020}};
  return profile;
}

// A network so fast that nothing is waited for.
NetworkModel free_network() {
  return {"free", {0, 1e30}, {0, 1e30}, 1e30};
}

SpatialPrediction predict(const SpatialNetworkPlan& plan, const NetworkModel& network,
                          const RankLayout& layout) {
  return predict_spatial_step(simple_profile(), plan, network, layout);
}

TEST(SpatialPrediction, EqualPartsWithoutMessagesTakeThePartOfTheTime) {
  for (const auto& shape : {Lengths{2}, Lengths{2, 2}, Lengths{1, 4, 2}, Lengths{4, 4, 4}}) {
    const auto plan = plan_spatial_network(layers_of(3, 1), Lengths{8, 16, 32}, shape);
    const auto ranks = plan.ranks();
    const auto prediction = predict(plan, free_network(), {ranks, 64, 128});
    EXPECT_NEAR(prediction.step.step_seconds, .034 / ranks, 1e-12);
    EXPECT_NEAR(prediction.step.compute_seconds, .030 / ranks, 1e-12);
    EXPECT_NEAR(prediction.efficiency, 1, 1e-9);
    EXPECT_NEAR(prediction.samples_per_second, 2 * ranks / .034, 1e-6);
    EXPECT_EQ(prediction.halo_bytes, 0);
  }
}

TEST(SpatialPrediction, ThePlanOfOneRankIsThePlainStep) {
  const auto plan = plan_spatial_network(layers_of(3, 3), Lengths{8, 8, 8}, Lengths{});
  const NetworkModel network{"simple", {2e-6, 5e9}, {1e-5, 1e9}, 8e9};
  for (const auto& layout : {RankLayout{1, 1, 4}, RankLayout{8, 2, 4}, RankLayout{8, 4, 2}}) {
    const auto expected = predict_step(simple_profile(), network, layout);
    const auto prediction = predict(plan, network, layout);
    EXPECT_NEAR(prediction.step.step_seconds, expected.step_seconds, 1e-12);
    EXPECT_NEAR(prediction.step.exposed_communication_seconds,
                expected.exposed_communication_seconds, 1e-12);
  }
}

TEST(SpatialPrediction, WaitsForEachMessage) {
  // Planes of 8 x 8 x 3 values for two samples: 1536 bytes, one from each of two ranks; forward of
  // both layers and backward of the second.
  const auto plan = plan_spatial_network(layers_of(2, 3), Lengths{8, 8, 8}, Lengths{2});
  NetworkModel network = free_network();
  network.within_node = {1e-3, 1.536e6};
  auto profile = simple_profile();
  profile.buckets.clear();
  const auto within = predict_spatial_step(profile, plan, network, {2, 2, 64});
  EXPECT_NEAR(within.step.halo_seconds, 3 * 2e-3, 1e-9);
  EXPECT_EQ(within.halo_bytes, 3 * 1536);
  // The ranks of another node don't count, but those that share the connection do.
  network.between_nodes = {1e-3, 1.536e6};
  EXPECT_NEAR(predict_spatial_step(profile, plan, network, {2, 1, 64}).step.halo_seconds, 3 * 2e-3,
              1e-9);
  const auto square = plan_spatial_network(layers_of(2, 3), Lengths{8, 8, 8}, Lengths{2, 2});
  // Nodes of two: neighbours along the first axis are on the other node, with half a plane each.
  network.within_node = {0, 1e30};
  EXPECT_NEAR(predict_spatial_step(profile, square, network, {4, 2, 64}).step.halo_seconds,
              3 * 2e-3, 1e-9);
}

// Averages may go through memory quicker than messages, which wake somebody.
TEST(SpatialPrediction, TakesTheLinkOfMessagesWhereItIsKnown) {
  const auto plan = plan_spatial_network(layers_of(2, 3), Lengths{8, 8, 8}, Lengths{2});
  auto network = free_network();
  network.messages_within_node = {1e-3, 1.536e6};
  network.messages_between_nodes = {2e-3, 1.536e6};
  auto profile = simple_profile();
  profile.buckets.clear();
  EXPECT_NEAR(predict_spatial_step(profile, plan, network, {2, 2, 64}).step.halo_seconds, 3 * 2e-3,
              1e-9);
  EXPECT_NEAR(predict_spatial_step(profile, plan, network, {2, 1, 64}).step.halo_seconds, 3 * 3e-3,
              1e-9);
}

TEST(SpatialPrediction, RanksBetweenTwoOthersSendTwice) {
  const auto plan = plan_spatial_network(layers_of(1, 3), Lengths{12, 8, 8}, Lengths{3});
  NetworkModel network = free_network();
  network.within_node = {1e-3, 1.536e6};
  auto profile = simple_profile();
  profile.buckets.clear();
  EXPECT_NEAR(predict_spatial_step(profile, plan, network, {3, 3, 64}).step.halo_seconds, 4e-3,
              1e-9);
}

TEST(SpatialPrediction, WholeLayersAreComputedByAll) {
  // The second of two layers with as much work has too few rows for four ranks.
  std::vector<FieldLayer> layers(2, {.name = "layer", .axes = {AxisLayer{}}});
  layers[0].axes[0] = {.kernel = 2, .stride = 4};
  layers[1].axes[0] = {.kernel = 2, .stride = 2};
  layers[1].outputs = 2;
  const auto plan = plan_spatial_network(layers, Lengths{16}, Lengths{4});
  ASSERT_FALSE(plan.is_whole(0));
  ASSERT_TRUE(plan.is_whole(1));
  const auto prediction = predict(plan, free_network(), {4, 4, 64});
  // Forward half of the time each; backward a third and two, as the first has no gradient of its
  // input to compute.
  EXPECT_NEAR(prediction.step.compute_seconds, .010 * (.5 / 4 + .5) + .020 * (1. / 3 / 4 + 2. / 3),
              1e-9);
  EXPECT_LT(prediction.efficiency, .5);
  // Four rows of one channel for two samples, of which each rank has one: 8 bytes in 3 rounds, and
  // again twice for the gradients' sum.
  NetworkModel network = free_network();
  network.within_node = {1e-3, 8e3};
  auto profile = simple_profile();
  profile.buckets.clear();
  const auto gathered = predict_spatial_step(profile, plan, network, {4, 4, 64});
  EXPECT_NEAR(gathered.step.halo_seconds, 3 * 3 * 2e-3, 1e-9);
}

TEST(SpatialPrediction, MessagesAndAveragesShareTheLinks) {
  // Five layers forward and four backward with a message of 1 ms each, all but the sample's; and
  // one bucket, ready with the last layer, that takes 100 ms alone.
  const auto plan = plan_spatial_network(layers_of(5, 3), Lengths{8, 8, 8}, Lengths{2});
  NetworkModel network = free_network();
  network.between_nodes = {1e-3, 1e30};
  auto profile = simple_profile();
  profile.buckets = {{1'000'000'000, .001}};
  const auto fast = predict_spatial_step(profile, plan, network, {2, 1, 64});
  EXPECT_GT(fast.step.halo_seconds, 9e-3 - 1e-9);
  network.between_nodes = {1e-3, 1e10};
  const auto slow = predict_spatial_step(profile, plan, network, {2, 1, 64});
  // Exchanges of the layers after it take twice as long, and it ends later by as much.
  EXPECT_NEAR(slow.step.halo_seconds, 13e-3, 1e-3);
  EXPECT_GT(slow.step.exposed_communication_seconds, .080);
}

TEST(SpatialPrediction, ForecastsMeshes) {
  SpatialStudy study{.profile = simple_profile(),
                     .layers = layers_of(3, 3),
                     .lengths = {64, 64, 64},
                     .network = {"simple", {2e-6, 5e9}, {1e-5, 1e9}, 8e9},
                     .options = {},
                     .ranks_per_node = 4,
                     .cores_per_node = 8,
                     .groups = 3};
  const std::vector<Lengths> shapes{{1, 1, 1}, {2, 1, 1}, {2, 2, 1}, {2, 2, 2}};
  const auto points = predict_spatial_points(study, shapes);
  ASSERT_THAT(points, SizeIs(4));
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].ranks, 3 << i);
    EXPECT_LE(points[i].prediction.efficiency, 1);
    EXPECT_NEAR(points[i].prediction.samples_per_second,
                3 * 2 / points[i].prediction.step.step_seconds, 1e-6);
    if (i == 0) continue;
    const auto &before = points[i - 1].prediction, &now = points[i].prediction;
    EXPECT_LT(now.step.compute_seconds, before.step.compute_seconds);
    EXPECT_LT(now.kept_bytes, before.kept_bytes);
    EXPECT_LT(now.efficiency, before.efficiency);
  }
}

TEST(SpatialPrediction, RefusesWhatItCannotPlay) {
  const auto plan = plan_spatial_network(layers_of(1, 3), Lengths{8, 8, 8}, Lengths{2});
  EXPECT_TRUE(says(message_of<Error>([&] {
                     (void)predict(plan, free_network(), {3, 3, 4});
                   }),
                   {"3 ranks in groups of 2"}));
  EXPECT_TRUE(says(message_of<InputError>([&] {
                     (void)predict(plan, {}, {2, 2, 4});
                   }),
                   {"nothing is known of all-reduces inside a node"}));
}

}  // namespace
}  // namespace kolo
