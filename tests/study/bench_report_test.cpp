// Reports of kolo bench.
#include "kolo/study/bench.h"
#include "support/matchers.h"
#include "support/says.h"

namespace kolo {
namespace {

using ::testing::DoubleEq;

// Two ranks, and trials of 10 steps of 8 samples per rank, of which rank 1 takes longer.
BenchMeasurement trials_of(BenchMode mode, const std::vector<double>& seconds) {
  BenchMeasurement measurement{mode, {{}, {}}};
  for (const double each : seconds) {
    measurement.trials[0].push_back({.9 * each, 80});
    measurement.trials[1].push_back({each, 80});
  }
  return measurement;
}

// Two trials.
BenchMeasurement two_ranks(BenchMode mode, double seconds, double data = 0,
                           double communication = 0) {
  auto measurement = trials_of(mode, {1.1 * seconds, seconds});
  for (auto& rank : measurement.trials) {
    for (auto& trial : rank) {
      trial.data_seconds = data * trial.seconds / seconds;
      trial.communication_seconds = communication * trial.seconds / seconds;
    }
  }
  return measurement;
}

BenchReport report_of(std::vector<BenchMeasurement> measurements) {
  return {{"a.yaml", "mnist_net", "mnist", "fp32", 2, 8, 1, 10, 5, 2},
          std::move(measurements),
          {1U << 30, 3U << 29}};
}

TEST(BenchReport, ATrialLastsUntilTheSlowestRankIsDone) {
  const auto measurement = two_ranks(BenchMode::io, 2);
  EXPECT_THAT(samples_per_second(measurement), ElementsAre(DoubleEq(160 / 2.2), DoubleEq(80)));
  EXPECT_THAT(milliseconds_per_step(measurement, 10), ElementsAre(DoubleEq(220), DoubleEq(200)));
}

TEST(BenchReport, OneTrialSpeaksForAll) {
  // A trial that something else held up changes nothing.
  const auto measurement = trials_of(BenchMode::full, {1, 40, 1.05, .8, 1.1});
  const auto rate = rate_of(measurement);
  EXPECT_EQ(rate.trial, 2U);
  EXPECT_DOUBLE_EQ(rate.median, 160 / 1.05);
  EXPECT_DOUBLE_EQ(rate.lower, 160 / 1.1);
  EXPECT_DOUBLE_EQ(rate.upper, 160);
  EXPECT_FALSE(rate.is_noisy());
  const auto report = report_of({measurement});
  EXPECT_TRUE(says(to_text(report), {"full             152          145 - 160          105  84.7  "
                                     "76.2\n"}));
  const auto json = to_json(report)["full"];
  EXPECT_DOUBLE_EQ(json["samples_per_second"]["median"].get<double>(), 160 / 1.05);
  EXPECT_DOUBLE_EQ(json["samples_per_second"]["lower_quartile"].get<double>(), 160 / 1.1);
  EXPECT_DOUBLE_EQ(json["milliseconds_per_step"]["median"].get<double>(), 105);
  EXPECT_EQ(json["milliseconds_per_step"]["trials"].size(), 5U);
  EXPECT_FALSE(rate_of(trials_of(BenchMode::full, {1})).is_noisy()) << "one trial tells nothing";
}

TEST(BenchReport, DrawsNoConclusionFromNoise) {
  const auto quiet = [](BenchMode mode, double seconds) {
    return trials_of(mode, {seconds, seconds});
  };
  const auto noisy = [](BenchMode mode, double seconds) {
    return trials_of(mode, {seconds, 2 * seconds});
  };
  auto report = report_of(
      {quiet(BenchMode::io, 1), quiet(BenchMode::synthetic, 4), noisy(BenchMode::full, 4)});
  EXPECT_TRUE(says(to_text(report),
                   {"noisy: trials differ by 50 % (full), so what bounds the run can't be told; "
                    "close other programs or raise --trials"}));
  EXPECT_FALSE(says(to_text(report), {"bound by"}));
  EXPECT_TRUE(to_json(report).at("bound_by").is_null());
  report.measurements = {noisy(BenchMode::io, 1), quiet(BenchMode::synthetic, 1.5),
                         quiet(BenchMode::full, 4)};
  EXPECT_FALSE(verdict_of(report)) << "either may be the slower one";
  report.measurements[0] = quiet(BenchMode::io, 1);
  report.measurements[2] = quiet(BenchMode::full, 1.2);
  EXPECT_TRUE(says(to_text(report), {"differ by 25 % (full, faster than synthetic), so what"}));
  // The loader is faster all the same.
  report.measurements[2] = quiet(BenchMode::full, 4);
  report.measurements[0] = noisy(BenchMode::io, .1);
  EXPECT_EQ(verdict_of(report).value().by, "compute");
  EXPECT_TRUE(says(to_text(report), {"noisy: trials differ by 50 % (io); close"}));
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
                                 two_ranks(BenchMode::full, 4, .8, .4)});
  const auto text = to_text(report);
  EXPECT_TRUE(says(
      text, {"batch 8 per rank, fp32", "peak memory by rank: 1.00 GiB  1.50 GiB",
             "of a full step: compute 70 %, waiting for gradients 10 %", "bound by compute: "}));
  const auto json = to_json(report);
  EXPECT_EQ(json["io"]["samples_per_second"]["trials"].size(), 2U);
  EXPECT_DOUBLE_EQ(json["full"]["shares"]["data"].get<double>(), .2);
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
  // A step takes 105 ms, the mean of two trials.
  EXPECT_TRUE(says(text, {"halos, synthetic: per rank and step 8.00 KiB sent in 1 messages, "
                          "30.000 ms from asking until they are there (29 %)",
                          "of it kept per rank for backward, by formula: "}));
  const auto json = to_json(report);
  EXPECT_EQ(json["spatial"]["cut"], (std::vector<int>{2, 1, 1}));
  EXPECT_EQ(json["spatial"]["computed_whole"], 0);
  // A layer of 64 cells times 4 channels beside the cut, of 8 samples; samples have no gradient.
  EXPECT_EQ(json["spatial"]["halo_bytes_by_formula"], 64 * 4 * 8 * 4);
  EXPECT_EQ(json["synthetic"]["halos_by_rank"][1]["seconds"], .03);
  report.setup.precision = "bf16";
  EXPECT_EQ(to_json(report)["spatial"]["halo_bytes_by_formula"], 64 * 4 * 8 * 2);
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
  EXPECT_TRUE(says(text, {"a step without communication: forward 12.500 ms",
                          "bucket 0: 3.00 MiB, ready after 2.000 ms of backward", "64.0 KiB",
                          "message of", "4.00 KiB"}));
}

TEST(BenchReport, SetsLayersBesideTheLeastThatTheyCouldTake) {
  auto report = report_of({two_ranks(BenchMode::synthetic, 1)});
  report.layers = LayerProfile{2e11,
                               8.0 * (1U << 30),
                               {{"stage1.block1.convolution1", "conv2d", .05, .1, .02, .04},
                                {"norm", "batch_norm", .0005, .001, .0001, .0002},
                                {"head", "linear", .02, .03, .01, .01}},
                               .0985};
  const auto text = to_text(report);
  EXPECT_TRUE(says(text, {"at 200 GFLOP/s", "8.00 GiB/s, in copies"}));
  EXPECT_TRUE(
      says(text, {"stage1.block1.convolution1 conv2d     50.000     20.000    100.000     40.000"}))
      << text;
  EXPECT_TRUE(says(text, {"others                                 0.500      0.100"}))
      << "layers of less than a hundredth stand together";
  EXPECT_TRUE(says(text, {"all layers                            70.500     30.100",
                          "the rest of a step: 98.500 ms"}));
  const auto json = to_json(report)["layers"];
  EXPECT_EQ(json["operations_per_second"], 2e11);
  EXPECT_EQ(json["layers"].size(), 3U);
  EXPECT_EQ(json["layers"][1]["kind"], "batch_norm");
  EXPECT_EQ(json["layers"][1]["backward_least"], .0002);
}

}  // namespace
}  // namespace kolo
