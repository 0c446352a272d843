// Reports of kolo bench.
#include "kolo/study/bench.h"
#include "support/says.h"

#include <cmath>

#include <gmock/gmock.h>

namespace kolo {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

// Two ranks and two trials of 10 steps of 8 samples per rank.
BenchMeasurement two_ranks(BenchMode mode, double seconds, double data = 0,
                           double communication = 0) {
  const BenchTrial trial{seconds, 80, data, communication};
  auto slower = trial;
  slower.seconds = 2 * seconds;
  slower.data_seconds = 2 * data;
  slower.communication_seconds = 2 * communication;
  return {mode, {{trial, trial}, {slower, trial}}};
}

BenchReport report_of(std::vector<BenchMeasurement> measurements) {
  return {{"a.yaml", "mnist_net", "mnist", "fp32", 2, 8, 1, 10, 5, 2},
          std::move(measurements),
          {1U << 30, 3U << 29}};
}

TEST(BenchReport, ATrialLastsUntilTheSlowestRankIsDone) {
  const auto measurement = two_ranks(BenchMode::io, 2);
  EXPECT_THAT(samples_per_second(measurement), ElementsAre(DoubleEq(40), DoubleEq(80)));
  EXPECT_THAT(milliseconds_per_step(measurement, 10), ElementsAre(DoubleEq(400), DoubleEq(200)));
}

TEST(BenchReport, SaysWhatBoundsTheRun) {
  const auto by = [](double io, double synthetic, BenchMeasurement full) {
    return verdict_of(report_of({two_ranks(BenchMode::io, io),
                                 two_ranks(BenchMode::synthetic, synthetic), std::move(full)}))
        .value()
        .by;
  };
  EXPECT_EQ(by(1, 4, two_ranks(BenchMode::full, 4.1, .1, .5)), "compute");
  EXPECT_EQ(by(1, 4, two_ranks(BenchMode::full, 4.1, .1, 2.5)), "communication");
  EXPECT_EQ(by(5, 4, two_ranks(BenchMode::full, 5.1, 1, .1)), "data");
  EXPECT_EQ(verdict_of(report_of({two_ranks(BenchMode::io, 1)})), std::nullopt);
}

TEST(BenchReport, IsATableAndOneObject) {
  const auto report = report_of({two_ranks(BenchMode::io, 1), two_ranks(BenchMode::synthetic, 4),
                                 two_ranks(BenchMode::full, 4, .5, .5)});
  const auto text = to_text(report);
  EXPECT_TRUE(says(text, {"batch 8 per rank, fp32"}));
  EXPECT_TRUE(says(text, {"peak memory by rank: 1.00 GiB  1.50 GiB"}));
  EXPECT_TRUE(says(text, {"of a full step: compute 75 %, waiting for gradients 12 %"}));
  EXPECT_TRUE(says(text, {"bound by compute: "}));
  const auto json = to_json(report);
  EXPECT_EQ(json["io"]["samples_per_second"]["trials"].size(), 2U);
  EXPECT_DOUBLE_EQ(json["full"]["shares"]["data"].get<double>(), .125);
  EXPECT_EQ(json["bound_by"], "compute");
  EXPECT_EQ(json["peak_memory_bytes_by_rank"][0], 1U << 30);
}

TEST(BenchReport, TellsOfDevicesMemoryWhereThereAreAny) {
  auto report = report_of({two_ranks(BenchMode::io, 1)});
  EXPECT_FALSE(says(to_text(report), {"on devices"}));
  EXPECT_FALSE(to_json(report).contains("device_memory_by_rank"));
  const DeviceMemoryUse use{1 << 30, 3 << 29, {std::size_t{6} << 30, std::size_t{8} << 30}};
  report.device_memory = {use, use};
  EXPECT_TRUE(
      says(to_text(report), {"on devices by rank: 1.50 GiB of 8.00 GiB  1.50 GiB of 8.00 GiB"}));
  const auto json = to_json(report)["device_memory_by_rank"];
  EXPECT_EQ(json.size(), 2U);
  EXPECT_EQ(json[1]["peak_allocated_bytes"], 1 << 30);
  EXPECT_EQ(json[1]["free_bytes"], std::size_t{6} << 30);
}

TEST(BenchReport, TellsOfHalosWhereRanksShareSamples) {
  auto report = report_of({two_ranks(BenchMode::synthetic, 1)});
  EXPECT_FALSE(says(to_text(report), {"halos"}));
  EXPECT_FALSE(to_json(report).contains("spatial"));
  const AxisLayer down{.kernel = 4, .stride = 2, .padding = 1};
  const FieldLayer layer{.name = "down", .axes = {down, down, down}, .inputs = 4, .outputs = 8};
  report.sample_cut = plan_spatial_network(std::vector{layer}, std::vector<std::int64_t>{8, 8, 8},
                                           std::vector<std::int64_t>{2, 1, 1});
  report.measurements[0].halos = {{8192, 1, .02}, {8192, 1, .03}};
  const auto text = to_text(report);
  EXPECT_TRUE(says(text, {"samples cut as [2,1,1]; computed whole by all of a replica's ranks: "
                          "nothing"}));
  // A step takes 150 ms: the slower trial's rank 200, the other's 100.
  EXPECT_TRUE(says(text, {"halos, synthetic: per rank and step 8.00 KiB sent in 1 messages, "
                          "30.000 ms from asking until they are there (20 %)"}));
  EXPECT_TRUE(says(text, {"of it kept per rank for backward, by formula: "}));
  const auto json = to_json(report);
  EXPECT_EQ(json["spatial"]["cut"], (std::vector<int>{2, 1, 1}));
  EXPECT_EQ(json["spatial"]["computed_whole"], 0);
  // A layer of 64 cells times 4 channels beside the cut, of 8 samples; samples have no gradient.
  EXPECT_EQ(json["spatial"]["halo_bytes_by_formula"], 64 * 4 * 8 * 4);
  EXPECT_EQ(json["synthetic"]["halos_by_rank"][1]["seconds"], .03);
}

TEST(BenchReport, ShowsWhatPredictionsAreMadeFrom) {
  auto report = report_of({two_ranks(BenchMode::io, 1)});
  EXPECT_FALSE(to_json(report).contains("profile"));
  EXPECT_FALSE(to_json(report).contains("collectives"));
  report.profile.emplace();
  report.profile->forward_seconds = .0125;
  report.profile->buckets = {{3 << 20, .002}};
  report.collectives = CollectiveMeasurement{{2, 2, 2}, {{65536, 1e-5}}, {{4096, 2e-5}}};
  const auto json = to_json(report);
  EXPECT_EQ(StepProfile::from_json(json["profile"]).to_json(), report.profile->to_json());
  EXPECT_EQ(CollectiveMeasurement::from_json(json["collectives"]).points.size(), 1U);
  const auto text = to_text(report);
  EXPECT_TRUE(says(text, {"a step without communication: forward 12.500 ms"}));
  EXPECT_TRUE(says(text, {"bucket 0: 3.00 MiB, ready after 2.000 ms of backward"}));
  EXPECT_TRUE(says(text, {"64.0 KiB"}));
  EXPECT_TRUE(says(text, {"message of"}));
  EXPECT_TRUE(says(text, {"4.00 KiB"}));
}

}  // namespace
}  // namespace kolo
