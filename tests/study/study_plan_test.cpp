#include "kolo/study/scale_study.h"

#include <set>

#include "kolo/base/error.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

RunConfig digits() {
  RunConfig config;
  config.optimizer.lr_scaling = Scaling::linear;
  config.training.batch_size = 32;
  config.training.lr_warmup_epochs = 2;
  return config;
}

ScaleRequest request(std::vector<int> ranks) {
  ScaleRequest request;
  request.config.file = "configs/digits.yaml";
  request.ranks = std::move(ranks);
  request.cores = 4;
  return request;
}

std::vector<std::int64_t> batches(const Study& study) {
  std::vector<std::int64_t> batches;
  for (const auto& point : study.points) batches.push_back(point.batch_size);
  return batches;
}

TEST(StudyPlan, WeakScalingKeepsTheBatchOfARank) {
  const auto study = plan_study(request({4, 1, 2, 2}), digits());
  EXPECT_EQ(study.scaling, "weak");
  EXPECT_EQ(study.name, "digits");
  EXPECT_THAT(batches(study), ElementsAre(32, 32, 32));
  EXPECT_EQ(study.points[2].ranks, 4);  // in order, each once
  EXPECT_EQ(study.points[2].lr_scaling, "linear");
  EXPECT_EQ(study.points[2].warmup_epochs, 2);
  auto on_nodes = request({1, 4, 9});
  on_nodes.ranks_per_node = 4;
  const auto points = plan_study(on_nodes, digits()).points;
  EXPECT_THAT((std::vector{points[0].nodes, points[1].nodes, points[2].nodes}),
              ElementsAre(1, 1, 3));
}

TEST(StudyPlan, StrongScalingSharesTheBatchOfAllRanks) {
  auto strong = request({1, 2, 8});
  strong.strong = true;
  EXPECT_THAT(batches(plan_study(strong, digits())), ElementsAre(32, 16, 4));
  strong.ranks = {1, 5};
  EXPECT_THAT([&] { (void)plan_study(strong, digits()); },
              ThrowsMessage<InputError>(
                  HasSubstr("training.batch_size: 32 on 1 rank, so 32 in all, which --strong keeps "
                            "and 5 ranks can't share evenly; 30 or 35 in all can")));
}

// The same steps need the same rate, however many ranks share them.
TEST(StudyPlan, StrongScalingKeepsTheLearningRate) {
  auto strong = request({1, 2, 4});
  strong.strong = true;
  const auto study = plan_study(strong, digits());
  EXPECT_THAT(study.settings, Contains("training.base_batch_size=32"));
  EXPECT_EQ(study.points[2].folder, "runs/strong-4");
  auto config = digits();
  config.training.base_batch_size = 8;  // then it says what the rate is for
  EXPECT_THAT(plan_study(strong, config).settings,
              Not(Contains(StartsWith("training.base_batch_size"))));
}

TEST(StudyPlan, AGlobalBatchIsOfTheFewestRanks) {
  auto config = digits();
  config.training.batch_size.reset();
  config.training.global_batch_size = 64;
  EXPECT_THAT(batches(plan_study(request({2, 4}), config)), ElementsAre(32, 32));
  auto strong = request({2, 4});
  strong.strong = true;
  EXPECT_THAT(batches(plan_study(strong, config)), ElementsAre(32, 16));
}

// Of all virtual ranks, however many ranks compute them.
TEST(StudyPlan, VirtualRanksFixTheBatchOfAllRanks) {
  auto config = digits();
  config.training.virtual_ranks = 4;
  auto strong = request({1, 2, 3});
  strong.strong = true;
  const auto study = plan_study(strong, config);
  EXPECT_THAT(batches(study), ElementsAre(32, 32, 32));
  EXPECT_TRUE(says(describe(study.points[1]), {"2 ranks, batch 32 per virtual rank"}));
  EXPECT_EQ(Study::from_json(study.to_json()).points[1].batch_of, "virtual rank");
  strong.ranks = {1, 5};
  EXPECT_THAT([&] { (void)plan_study(strong, config); },
              ThrowsMessage<InputError>(HasSubstr("too few for 5 ranks")));
  EXPECT_THAT(
      [&] {
        (void)plan_study(request({1, 2}), config);
      },
      ThrowsMessage<InputError>(
          AllOf(HasSubstr("training.virtual_ranks: 4"), HasSubstr("add --strong"))));
}

// Two ranks have a part of the network each.
TEST(StudyPlan, ReplicasOfSeveralRanksShareTheBatch) {
  auto config = digits();
  config.parallel.pipeline = 2;
  auto strong = request({2, 4});
  strong.strong = true;
  EXPECT_THAT(batches(plan_study(strong, config)), ElementsAre(32, 16));
  config.training.batch_size.reset();
  config.training.global_batch_size = 16;
  const auto study = plan_study(strong, config);
  EXPECT_THAT(batches(study), ElementsAre(16, 8));
  EXPECT_TRUE(says(describe(study.points[0]), {"2 ranks, batch 16 per replica"}));
  strong.ranks = {1, 2};
  EXPECT_THAT([&] { (void)plan_study(strong, config); },
              ThrowsMessage<InputError>(HasSubstr("1 rank, but pipeline 2")));
}

TEST(StudyPlan, AxesMultiplyAndWhatTrainsAlikeIsTrainedOnce) {
  auto wanted = request({1, 4});
  wanted.lr_scalings = {Scaling::none, Scaling::linear, Scaling::sqrt};
  wanted.warmup_epochs = {3, 0};
  const auto study = plan_study(wanted, digits());
  ASSERT_EQ(study.points.size(), 12U);
  std::set<std::string> of_one, of_four;
  for (const auto& point : study.points) (point.ranks == 1 ? of_one : of_four).insert(point.folder);
  EXPECT_EQ(of_one.size(), 1U);
  EXPECT_EQ(of_four.size(), 5U);  // unscaled, a warm-up changes nothing
}

// A warm-up from below, and one rank whose batch is not the base batch, matter without scaling too.
TEST(StudyPlan, WhatTrainsOtherwiseHasAFolderOfItsOwn) {
  auto wanted = request({1});
  wanted.lr_scalings = {Scaling::none, Scaling::linear};
  wanted.warmup_epochs = {0, 3};
  auto warmed = digits(), based = digits();
  warmed.training.lr_warmup_from = 0;
  based.training.base_batch_size = 16;
  const auto of_warmed = plan_study(wanted, warmed).points,
             of_based = plan_study(wanted, based).points;
  EXPECT_EQ(of_warmed[0].folder, of_warmed[2].folder);
  EXPECT_NE(of_warmed[0].folder, of_warmed[1].folder);
  EXPECT_NE(of_based[0].folder, of_based[2].folder);
}

TEST(StudyPlan, SettingsOfARun) {
  auto wanted = request({1, 2});
  wanted.config.overrides = {"training.n_epochs=2"};
  wanted.threads = 2;
  const auto study = plan_study(wanted, digits());
  EXPECT_THAT(
      settings_of(wanted, study, study.points[1]),
      ElementsAre("training.n_epochs=2", "device.intra_threads=2", "training.batch_size=32"));
  wanted.config.overrides = {"training.global_batch_size=64"};  // the study's batch size stands
  const auto whole = plan_study(wanted, digits());
  EXPECT_THAT(settings_of(wanted, whole, whole.points[1]),
              ElementsAre("training.global_batch_size=64", "device.intra_threads=2",
                          "training.global_batch_size=null", "training.batch_size=32"));
  wanted.lr_scalings = {Scaling::sqrt};
  wanted.warmup_epochs = {0.5};
  const auto varied = plan_study(wanted, digits());
  const auto settings = settings_of(wanted, varied, varied.points[1]);
  EXPECT_THAT(settings, Contains("optimizer.lr_scaling=sqrt"));
  EXPECT_THAT(settings, Contains("training.lr_warmup_epochs=0.5"));
  EXPECT_THAT(settings, Contains("training.lr_warmup_steps=0"));
}

TEST(StudyPlan, ThreadsOfTheConfigurationStand) {
  auto config = digits();
  config.device.intra_threads = 3;
  auto wanted = request({2});
  wanted.threads = 2;
  const auto study = plan_study(wanted, config);
  EXPECT_THAT(settings_of(wanted, study, study.points[0]),
              Not(Contains(StartsWith("device.intra_threads"))));
}

// Fields of 16 x 16 x 16, halved, and back again.
SharedSamples fields() {
  const AxisLayer down{.kernel = 4, .stride = 2, .padding = 1};
  auto up = down;
  up.is_transposed = true;
  SharedSamples samples;
  samples.lengths = {16, 16, 16};
  samples.layers = {{.name = "down", .axes = {down, down, down}, .inputs = 4, .outputs = 8},
                    {.name = "up", .axes = {up, up, up}, .inputs = 8, .outputs = 4, .mirrors = 0}};
  return samples;
}

TEST(StudyPlan, RanksThatShareSamplesHaveOneBatch) {
  auto shared = request({1, 2, 4});
  shared.shared = fields();
  const auto study = plan_study(shared, digits());
  EXPECT_EQ(study.parallel, "spatial");
  EXPECT_EQ(study.scaling, "strong");
  EXPECT_THAT(batches(study), ElementsAre(32, 32, 32));
  EXPECT_THAT(study.points[0].spatial, ElementsAre(1, 1, 1));
  EXPECT_THAT(study.points[1].spatial, ElementsAre(2, 1, 1));
  EXPECT_THAT(study.points[2].spatial, ElementsAre(2, 2, 1)) << "the least surface";
  EXPECT_EQ(study.points[2].folder, "runs/spatial-2x2x1") << "one replica: no rate is scaled";
  EXPECT_THAT(study.settings, Not(Contains(StartsWith("training.base_batch_size"))));
  EXPECT_THAT(settings_of(shared, study, study.points[1]), Contains("parallel.spatial=[2,1,1]"));
  EXPECT_TRUE(says(describe(study.points[1]), {"2 ranks, samples cut as [2,1,1], batch 32"}));
  EXPECT_GT(study.points[1].kept_bytes, .5 * study.points[0].kept_bytes);
  EXPECT_LT(study.points[1].kept_bytes, .8 * study.points[0].kept_bytes);
  auto mixed = digits();
  mixed.training.precision = Precision::bf16;
  EXPECT_LT(plan_study(shared, mixed).points[1].kept_bytes, study.points[1].kept_bytes);
}

TEST(StudyPlan, NamesNumbersOfRanksThatCanShareSamples) {
  auto shared = request({1, 2, 31});
  shared.shared = fields();
  const auto planning = [&] { (void)plan_study(shared, digits()); };
  EXPECT_THAT(planning, ThrowsMessage<InputError>(HasSubstr(
                            "31 ranks can't share samples of [16, 16, 16]; 30 or 32 can")));
  shared.ranks = {2, 100'003};
  EXPECT_THAT(planning, ThrowsMessage<InputError>(HasSubstr(
                            "100003 ranks can't share samples of [16, 16, 16]; 4096 can")));
}

TEST(StudyPlan, RefusesNonsense) {
  const auto planning = [](const ScaleRequest& wanted) {
    return [wanted] { (void)plan_study(wanted, digits()); };
  };
  EXPECT_THAT(planning(request({})), ThrowsMessage<InputError>(HasSubstr("--ranks")));
  EXPECT_THAT(planning(request({2, 0})), ThrowsMessage<InputError>(HasSubstr("0 is no number")));
  auto wanted = request({1});
  wanted.warmup_epochs = {-1};
  EXPECT_THAT(planning(wanted), ThrowsMessage<InputError>(HasSubstr("--warmup")));
}

}  // namespace
}  // namespace kolo::testing
