// Predictions for studies, from measurements in files.
#include "simulate_study.h"

#include <gmock/gmock.h>

#include "kolo/base/error.h"
#include "support/errors.h"
#include "support/says.h"
#include "support/temporary_folder.h"

namespace kolo::testing {
namespace {

using ::testing::ElementsAre;

class SimulateStudy : public ::testing::Test {
 protected:
  // A bench of so many ranks: 0.3 ms a sample, and all-reduces where there are several.
  std::filesystem::path bench(int ranks, std::int64_t batch_size) const {
    StepProfile profile{.name = "a network", .ranks = ranks, .ranks_per_node = ranks};
    profile.cores_per_node = 2;
    profile.batch_size = batch_size;
    profile.forward_seconds = 1e-4 * static_cast<double>(batch_size);
    profile.backward_seconds = 2 * profile.forward_seconds;
    profile.optimizer_seconds = 5e-4;
    profile.slowest_seconds = profile.compute_seconds();
    profile.buckets = {{1 << 20, profile.backward_seconds}};
    nlohmann::ordered_json json{{"n_ranks", ranks}, {"profile", profile.to_json()}};
    if (ranks > 1) {
      CollectiveMeasurement collectives{{ranks, ranks, 2}, {}};
      for (const double bytes : {4e3, 4e4, 4e5, 4e6})
        collectives.points.push_back({bytes, 1e-5 + bytes / 1e9});
      collectives.messages = collectives.points;
      json["collectives"] = collectives.to_json();
    }
    return folder_.write("bench-" + std::to_string(ranks) + ".json", json.dump());
  }

  static StudyPoint point(int ranks, std::int64_t batch_size, double step_seconds) {
    StudyPoint point{.ranks = ranks, .batch_size = batch_size, .lr_scaling = "linear"};
    point.state = StudyPointState::done;
    point.results.step_seconds = step_seconds;
    return point;
  }

  static Simulation simulated(const Study& study, const SimulationRequest& request) {
    return simulate_study(study, request, [](const std::string&) {});
  }

  TemporaryFolder folder_;
};

TEST_F(SimulateStudy, PredictsWhatWasRunAndMore) {
  folder_.write("config.yaml",
                "data: {name: dummy, input_shape: [1, 28, 28], n_train: 6400, n_valid: 64}\n"
                "model: {name: mnist_net}\noptimizer: {name: sgd, lr: 0.1}\n"
                "training: {batch_size: 32, n_epochs: 1}\n");
  Study study{.name = "digits", .scaling = "weak"};
  study.cores = 2;
  study.points = {point(1, 32, .0101), point(2, 32, .0301)};
  SimulationRequest request{.study = folder_.path(), .ranks = {64, 2}, .network = "slingshot-11"};
  request.ranks_per_node = 2;
  request.benches = {bench(1, 32), bench(2, 32)};
  const auto simulation = simulated(study, request);
  std::vector<int> ranks, nodes;
  for (const auto& predicted : simulation.points) {
    ranks.push_back(predicted.ranks);
    nodes.push_back(predicted.nodes);
    EXPECT_EQ(predicted.batch_size, 32);
  }
  EXPECT_THAT(ranks, ElementsAre(1, 2, 64));
  EXPECT_THAT(nodes, ElementsAre(1, 1, 32));
  EXPECT_NEAR(simulation.points[0].step_seconds, .0101, 1e-9);
  EXPECT_NEAR(simulation.points[0].epoch_seconds, 200 * .0101, 1e-6);
  EXPECT_GT(simulation.points[2].step_seconds, simulation.points[1].step_seconds);

  const auto text = to_text(study, simulation);
  EXPECT_TRUE(says(text, {"+0.0 %\n"})) << "one rank is what was measured";
  EXPECT_TRUE(says(text, {" % !\n"})) << "two are far off";
  EXPECT_TRUE(says(text, {"off by more than 25 %"}));
  const auto json = to_json(simulation);
  EXPECT_EQ(json["network"], "slingshot-11");
  EXPECT_EQ(json["points"][0]["efficiency"], 1);
  EXPECT_LT(json["points"][2]["efficiency"].get<double>(), 1);
  EXPECT_EQ(json["points"][2]["results"]["step_seconds"], simulation.points[2].step_seconds);

  study.points.pop_back();
  EXPECT_FALSE(says(to_text(study, simulated(study, request)), {"!"}));
}

TEST_F(SimulateStudy, PredictsRanksThatShareSamples) {
  folder_.write(
      "config.yaml",
      "data: {name: nbody, mode: synthetic, box_size: 20, crop: 16, n_train: 4, n_valid: 2}\n"
      "model: {name: unet3d, levels: 3, channels: 4}\noptimizer: {name: adam, lr: 0.001}\n"
      "training: {loss: l1, global_batch_size: 2, n_epochs: 1}\n");
  Study study{.name = "fields", .scaling = "strong", .parallel = "spatial"};
  study.cores = 2;
  study.points = {point(1, 2, .01), point(2, 2, .01)};
  SimulationRequest request{.study = folder_.path(), .ranks = {8}, .network = "slingshot-11"};
  request.ranks_per_node = 2;
  request.benches = {bench(1, 2), bench(2, 2)};
  const auto simulation = simulated(study, request);
  ASSERT_EQ(simulation.points.size(), 3U);
  const auto& two = simulation.points[1];
  const auto& eight = simulation.points[2];
  EXPECT_THAT(eight.spatial, ElementsAre(2, 2, 2));
  EXPECT_EQ(eight.nodes, 4);
  EXPECT_EQ(eight.batch_size, 2);
  EXPECT_GT(eight.step_seconds, 0);
  EXPECT_LT(eight.kept_bytes, two.kept_bytes);
  EXPECT_EQ(to_json(simulation)["points"][2]["spatial"], (nlohmann::json{2, 2, 2}));
  request.ranks = {100'003};
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)simulated(study, request); }),
                   {"100003 ranks can't share samples of [16, 16, 16]"}));
}

TEST_F(SimulateStudy, RefusesWhatItCantPredict) {
  Study study{.name = "digits", .scaling = "weak"};
  const auto refused = [&](const SimulationRequest& request) {
    return message_of<InputError>([&] { (void)simulated(study, request); });
  };
  EXPECT_TRUE(says(refused({.ranks = {8}}), {"no points"}));
  study.points = {point(1, 32, .01)};
  EXPECT_TRUE(says(refused({.ranks = {0}}), {"0 is no number of ranks"}));
  EXPECT_TRUE(says(refused({.ranks = {8}}), {"--network: ethernet-1g"}));
  EXPECT_TRUE(says(refused({.ranks = {8}, .network = "string"}), {"string"}));
  EXPECT_TRUE(says(message_of<InputError>([] { (void)read_benches({}); }), {"no file has"}));
  EXPECT_TRUE(
      says(message_of<InputError>([&] { (void)read_benches({folder_.write("broken.json", "{")}); }),
           {"broken.json is not JSON"}));
  EXPECT_TRUE(says(message_of<InputError>([&] { (void)read_benches({folder_ / "none.json"}); }),
                   {"none.json does not exist"}));
  EXPECT_TRUE(
      says(message_of<InputError>([&] { (void)read_benches({folder_.write("other.json", "{}")}); }),
           {"other.json", "n_ranks"}));
}

}  // namespace
}  // namespace kolo::testing
