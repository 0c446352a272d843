// kolo bench, end to end through the binary.
#include <gmock/gmock.h>

#include "cli/program.h"
#include "kolo/train/observe/bench_records.h"
#include "support/says.h"

namespace kolo::testing {
namespace {

class BenchProgram : public ::testing::Test {
 protected:
  // In a folder of its own, so that whatever is written there is seen.
  [[nodiscard]] std::vector<std::string> words(const std::vector<std::string>& more) const {
    return joined({"bench", config_, "--steps", "3", "--warmup", "1", "--trials", "2"}, more);
  }
  [[nodiscard]] nlohmann::json bench_json(const std::vector<std::string>& more) const {
    return json_of(words(more));
  }

  TemporaryFolder folder_;
  std::string config_ = folder_.write(
      "small.yaml", "output_dir: " + (folder_ / "run").string() +
                        "\n"
                        "data: {name: dummy, input_shape: [1, 28, 28], n_train: 100}\n"
                        "model: {name: mnist_net}\n"
                        "optimizer: {name: sgd}\n"
                        "training: {global_batch_size: 16}\n");
};

TEST_F(BenchProgram, MeasuresTwoRanksAndWritesNothing) {
  const auto json = bench_json({"-n", "2"});
  EXPECT_EQ(json["n_ranks"], 2);
  EXPECT_EQ(json["batch_size"], 8);
  for (const char* mode : {"io", "synthetic", "full"}) {
    EXPECT_EQ(json[mode]["samples_per_second"]["trials"].size(), 2U) << mode;
    EXPECT_EQ(json[mode]["samples_per_second_by_rank"].size(), 2U);
    const double rate = json[mode]["samples_per_second"]["median"];
    const double milliseconds = json[mode]["milliseconds_per_step"]["trials"][0];
    EXPECT_GT(rate, 0);
    EXPECT_NEAR(json[mode]["samples_per_second"]["trials"][0].get<double>(),
                3 * 16 / (3 * milliseconds / 1e3), 1e-6 * rate);
  }
  EXPECT_THAT(json["bound_by"], ::testing::AnyOf("data", "compute", "communication", nullptr))
      << "null on a noisy machine";
  EXPECT_GT(json["peak_memory_bytes_by_rank"][1], 10e6);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

// Each sample of a step counts once, whichever ranks compute its parts.
TEST_F(BenchProgram, MeasuresVirtualRanks) {
  const std::vector<std::string> parts{"training.virtual_ranks=4", "--mode", "synthetic"};
  for (const auto* const ranks : {"1", "3"}) {
    const auto json = bench_json(joined(parts, {"-n", ranks, "--oversubscribe"}));
    EXPECT_EQ(json["virtual_ranks"], 4);
    EXPECT_EQ(json["ranks_per_replica"], 1);
    EXPECT_EQ(json["batch_size"], 4);
    const double rate = json["synthetic"]["samples_per_second"]["trials"][0];
    const double milliseconds = json["synthetic"]["milliseconds_per_step"]["trials"][0];
    EXPECT_NEAR(rate, 16 / (milliseconds / 1e3), 1e-6 * rate) << ranks;
  }
  EXPECT_TRUE(succeeds(run_kolo(words(parts)), {"batch 4 per virtual rank, 4 of them"}));
  EXPECT_TRUE(is_refused(run_kolo(words(joined(parts, {"--profile"}))),
                         {"training.virtual_ranks", "--profile"}));
  EXPECT_TRUE(is_refused(run_kolo(words({"training.virtual_ranks=3"})),
                         {"16 samples can't be shared evenly by 3 virtual ranks"}));
}

TEST_F(BenchProgram, ShowsATableOfTheModesAskedFor) {
  const auto all = run_kolo({"bench", config_, "--steps", "3", "--warmup", "1", "--trials", "1"},
                            {{"KOLO_TERMINAL", "80 ascii"}});
  EXPECT_EQ(all.exit_code, 0) << all.errors;
  // And how far it is.
  EXPECT_TRUE(says(all.output, {"\rio ", "\rsynthetic ", "\rfull ", "0/4",
                                "mnist_net on dummy, 1 rank", "synthetic "}));
  EXPECT_THAT(all.output,
              ::testing::AnyOf(::testing::HasSubstr("bound by "), ::testing::HasSubstr("noisy: ")));
  const auto io = bench_json({"--mode", "io"});
  EXPECT_TRUE(io.contains("io"));
  EXPECT_FALSE(io.contains("full"));
  EXPECT_FALSE(io.contains("bound_by"));
}

// No file of it is there, nor its folder.
TEST_F(BenchProgram, StepsOnOneBatchNeedNoData) {
  const auto nowhere = (folder_ / "nowhere").string();
  for (const std::vector<std::string>& data : std::vector<std::vector<std::string>>{
           {"data={name: mnist, path: " + nowhere + "}"},
           {"data={name: cifar10, path: " + nowhere + "}", "model.name=cnn"},
           {"data={name: imagenet, train_dir: " + nowhere + ", valid_dir: " + nowhere +
                ", input_shape: [3, 32, 32]}",
            "model={name: cnn, n_classes: 5}"},
           {"data={name: nbody, train_path: " + nowhere + ", valid_path: " + nowhere +
                ", n_train: 2, n_valid: 2, crop: 32}",
            "model={name: unet3d, levels: 3, channels: 4}", "training.loss=l1",
            "training.global_batch_size=2"}}) {
    const auto json = bench_json(joined(data, {"--mode", "synthetic"}));
    EXPECT_GT(json["synthetic"]["samples_per_second"]["median"], 0) << data[0];
    EXPECT_TRUE(
        is_refused(run_kolo(words(joined(data, {"--mode", "full"}))), {"nowhere", "kolo data "}))
        << "and which command makes or gets it";
  }
}

// Ranks exchange as many bytes per step as the formula says.
TEST_F(BenchProgram, CountsTheHalosOfRanksThatShareSamples) {
  std::vector<std::string> shared{
      "-n", "4", "--oversubscribe", "--mode", "synthetic", "parallel.spatial=[2,1,1]",
      "data={name: nbody, mode: synthetic, box_size: 20, crop: 16, n_train: 8, n_valid: 4}",
      "model={name: unet3d, levels: 3, channels: 4}", "training.loss=l1",
      "training.global_batch_size=4"};
  const auto json = bench_json(shared);
  EXPECT_EQ(json["ranks_per_replica"], 2);
  EXPECT_EQ(json["spatial"]["cut"], (std::vector<int>{2, 1, 1}));
  const auto& halos = json["synthetic"]["halos_by_rank"];
  ASSERT_EQ(halos.size(), 4U);
  for (const auto& rank : halos) {
    EXPECT_EQ(rank["bytes"], json["spatial"]["halo_bytes_by_formula"]);
    EXPECT_GT(rank["seconds"], 0);
    EXPECT_LT(rank["seconds"].get<double>(),
              json["synthetic"]["milliseconds_per_step"]["median"].get<double>());
  }
  EXPECT_GT(json["peak_memory_bytes_by_rank"][0], json["spatial"]["kept_bytes_by_formula"]);

  shared.emplace_back("training.precision=bf16");
  const auto mixed = bench_json(shared);
  EXPECT_EQ(mixed["synthetic"]["halos_by_rank"][0]["bytes"],
            mixed["spatial"]["halo_bytes_by_formula"]);
  EXPECT_EQ(mixed["spatial"]["halo_bytes_by_formula"].get<int>() * 2,
            json["spatial"]["halo_bytes_by_formula"].get<int>());
}

// Times of a step's parts fit the step and the trainer's bucket plan.
TEST_F(BenchProgram, ProfilesAStepOfTwoRanks) {
  const auto json =
      bench_json({"-n", "2", "--mode", "full", "--profile", "communication.bucket_mb=0.05"});
  const auto profile = StepProfile::from_json(json["profile"]);
  EXPECT_EQ(profile.name, "mnist_net");
  EXPECT_EQ(profile.ranks, 2);
  EXPECT_EQ(profile.batch_size, 8);
  EXPECT_TRUE(profile.updates_by_bucket);
  EXPECT_EQ(profile.shared_update_passes, 0);  // too small
  EXPECT_GT(profile.forward_seconds, 0);
  EXPECT_GT(profile.optimizer_seconds, 0);
  EXPECT_GE(profile.slowest_seconds, 0);
  EXPECT_GE(profile.data_wait_seconds, 0);
  ASSERT_EQ(profile.buckets.size(), 2U);
  // 21 840 parameters, each beginning at a multiple of 64 bytes.
  const auto bytes = profile.buckets[0].bytes + profile.buckets[1].bytes;
  EXPECT_GE(bytes, 4 * 21'840);
  EXPECT_LT(bytes, 4 * 21'840 + 8 * 64);
  EXPECT_LT(profile.buckets[0].ready_seconds, profile.buckets[1].ready_seconds);
  EXPECT_LE(profile.buckets[1].ready_seconds, 1.5 * profile.backward_seconds);

  const auto collectives = CollectiveMeasurement::from_json(json["collectives"]);
  EXPECT_EQ(collectives.layout.ranks, 2);
  EXPECT_EQ(collectives.layout.nodes(), 1);
  EXPECT_EQ(collectives.points.front().bytes, 4096);
  for (const auto& point : collectives.points) EXPECT_GT(point.seconds, 0);
  EXPECT_EQ(collectives.messages.front().bytes, 4096);
  EXPECT_GE(collectives.messages.size(), 3U);
  for (const auto& message : collectives.messages) EXPECT_GT(message.seconds, 0);
}

// Each layer with parameters has times, and the least that it could take: layers of kolo's own
// operators and of LibTorch's, which in bfloat16 take copies of the weights.
TEST_F(BenchProgram, ProfilesEachLayer) {
  for (const char* precision : {"fp32", "bf16"}) {
    const auto json =
        bench_json({"--mode", "synthetic", "--profile", "model.name=resnet_small",
                    "data.input_shape=[3, 8, 8]", std::string("training.precision=") + precision});
    const auto& profile = json["layers"];
    EXPECT_GT(profile["operations_per_second"], 0);
    EXPECT_GT(profile["bytes_per_second"], 0);
    EXPECT_GT(profile["rest_seconds"], 0);  // of the same steps, so it can't be negative
    int convolutions = 0, norms = 0;
    for (const auto& layer : profile["layers"]) {
      convolutions += layer["kind"] == "conv2d";
      norms += layer["kind"] == "batch_norm";
      for (const char* pass : {"forward", "backward"}) {
        EXPECT_GT(layer[std::string(pass) + "_seconds"], 0) << precision << " " << layer;
        EXPECT_GT(layer[std::string(pass) + "_least"], 0) << layer;
      }
      // Bound by memory: backward meets the input twice, but the output once.
      if (layer["kind"] == "batch_norm") {
        EXPECT_LT(layer["backward_least"].get<double>(), 1.9 * layer["forward_least"].get<double>())
            << layer;
      }
    }
    EXPECT_GE(convolutions, 9);
    EXPECT_GE(norms, 9);
  }
}

TEST_F(BenchProgram, ProfilesAloneAndWithoutUpdatesByBucket) {
  const auto json = bench_json(
      {"--mode", "io", "--profile", "training.clip_norm=1", "communication.overlap=false"});
  const auto profile = StepProfile::from_json(json["profile"]);
  EXPECT_FALSE(profile.updates_by_bucket);
  EXPECT_EQ(profile.data_wait_seconds, 0);
  for (const auto& bucket : profile.buckets)
    EXPECT_EQ(bucket.ready_seconds, profile.backward_seconds);
  EXPECT_FALSE(json.contains("collectives"));  // with nobody
}

TEST_F(BenchProgram, RefusesWhatCannotWorkBeforeAnythingStarts) {
  const auto shared = run_kolo(words({"-n", "3"}));
  EXPECT_TRUE(
      is_refused(shared, {"16 samples can't be shared evenly by 3 ranks", "a batch of 15 or 18"}));
  EXPECT_TRUE(shared.output.empty());
}

}  // namespace
}  // namespace kolo::testing
