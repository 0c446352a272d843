// Steps of pipelines, by hand and against what must hold for all.
#include "kolo/scaling/predict_pipeline.h"

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"

namespace kolo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

NetworkModel free_network() {
  return {"free", {0, 1e30}, {0, 1e30}, 1e30};
}

// Stages of 10 ms forward and 20 backward.
PipelineProfile equal_stages(const PipelineShape& shape) {
  PipelineProfile profile{.shape = shape};
  profile.stages.resize(static_cast<std::size_t>(shape.ranks));
  for (auto& stage : profile.stages) {
    stage.seconds = {.forward = .010, .backward = .020};
    stage.kept_bytes = 1000;
  }
  return profile;
}

TEST(PipelinePrediction, EqualStagesIdleAsTheFormulaSays) {
  using enum PipelineSchedule;
  for (const auto& shape : {PipelineShape{gpipe, 4, 8}, PipelineShape{one_f_one_b, 4, 8},
                            PipelineShape{one_f_one_b, 1, 3}, PipelineShape{gpipe, 3, 2}}) {
    const auto step =
        predict_pipeline_step(equal_stages(shape), free_network(), {shape.ranks, 1, 1});
    EXPECT_NEAR(step.idle_share, step.ideal_idle_share, 1e-9);
    EXPECT_NEAR(step.ideal_idle_share, ideal_idle_share(shape), 1e-12);
    const auto busy = .030 * shape.micro_batches;
    EXPECT_NEAR(step.compute_seconds, busy, 1e-9);
    EXPECT_NEAR(step.step_seconds, busy / (1 - step.idle_share), 1e-9);
    EXPECT_NEAR(step.exposed_communication_seconds, 0, 1e-9);
  }
}

TEST(PipelinePrediction, MessagesTakeTheirTime) {
  // One micro-batch goes through three stages and back: each boundary is passed twice.
  auto profile = equal_stages({PipelineSchedule::one_f_one_b, 3, 1});
  profile.stages[0].bytes_after = 1000;
  profile.stages[1].bytes_after = 2000;
  NetworkModel network = free_network();
  network.within_node = {1e-3, 1e6};
  const auto within = predict_pipeline_step(profile, network, {3, 3, 8});
  EXPECT_NEAR(within.pipeline_seconds, .090 + 2 * (2e-3 + 3e-3), 1e-9);
  // Ranks 0 and 1 share a node, 2 is on another; both links differ.
  network.between_nodes = {5e-3, 1e6};
  EXPECT_NEAR(predict_pipeline_step(profile, network, {3, 2, 8}).pipeline_seconds,
              .090 + 2 * (2e-3 + 7e-3), 1e-9);
  // Two replicas on each of three nodes send at once.
  EXPECT_NEAR(predict_pipeline_step(profile, network, {6, 2, 8}).pipeline_seconds,
              .090 + 2 * (5e-3 + 2e-3 + 5e-3 + 4e-3), 1e-9);
}

TEST(PipelinePrediction, ReplicasAverageWithTheLastMicroBatch) {
  // Two stages of two micro-batches; a megabyte takes 4 ms among two replicas on two nodes.
  auto profile = equal_stages({PipelineSchedule::gpipe, 2, 2});
  for (auto& stage : profile.stages) {
    stage.optimizer_seconds = .002;
    stage.buckets = {{1'000'000, .005}, {1'000'000, .020}};
  }
  NetworkModel network = free_network();
  network.between_nodes = {0, 2.5e8};
  const auto alone = predict_pipeline_step(profile, network, {2, 1, 8});
  EXPECT_NEAR(alone.step_seconds, .090 + .002, 1e-6);
  // Rank 0 ends last, at 90 ms: its last bucket is averaged 4 ms later, its first one during
  // backward.
  const auto two = predict_pipeline_step(profile, network, {4, 1, 8});
  EXPECT_NEAR(two.pipeline_seconds, .090, 1e-9);
  EXPECT_NEAR(two.communication_seconds, .008, 1e-6);
  EXPECT_NEAR(two.step_seconds, .090 + .004 + .001, 1e-6);
  EXPECT_NEAR(two.exposed_communication_seconds, .003, 1e-6);
  // Where all have to know all norms first, nothing is updated meanwhile.
  profile.updates_by_bucket = false;
  EXPECT_NEAR(predict_pipeline_step(profile, network, {4, 1, 8}).step_seconds, .090 + .004 + .002,
              1e-6);
}

TEST(PipelinePrediction, TellsWhatRanksKeep) {
  auto profile = equal_stages({PipelineSchedule::one_f_one_b, 3, 8});
  profile.stages[1].kept_bytes = 10'000;
  EXPECT_THAT(predict_pipeline_step(profile, free_network(), {3, 1, 1}).kept_bytes,
              ElementsAre(3000, 20'000, 1000));
  profile.shape.schedule = PipelineSchedule::gpipe;
  EXPECT_THAT(predict_pipeline_step(profile, free_network(), {3, 1, 1}).kept_bytes,
              ElementsAre(8000, 80'000, 8000));
}

TEST(PipelinePrediction, SharedCoresStretchComputing) {
  auto profile = equal_stages({PipelineSchedule::gpipe, 4, 4});
  const auto apart = predict_pipeline_step(profile, free_network(), {4, 1, 1});
  EXPECT_NEAR(predict_pipeline_step(profile, free_network(), {4, 4, 2}).step_seconds,
              2 * apart.step_seconds, 1e-9);
  profile.is_on_devices = true;
  EXPECT_NEAR(predict_pipeline_step(profile, free_network(), {4, 4, 2}).step_seconds,
              apart.step_seconds, 1e-9);
}

TEST(PipelinePrediction, RefusesWhatItCannotPlay) {
  auto profile = equal_stages({PipelineSchedule::gpipe, 2, 2});
  EXPECT_THAT(message_of<Error>([&] {
                (void)predict_pipeline_step(profile, free_network(), {3, 1, 1});
              }),
              HasSubstr("3 ranks for a pipeline of 2"));
  profile.stages.pop_back();
  EXPECT_THAT(message_of<InputError>([&] {
                (void)predict_pipeline_step(profile, free_network(), {2, 1, 1});
              }),
              HasSubstr("a pipeline of 2 stages, of which 1 were measured"));
}

}  // namespace
}  // namespace kolo
