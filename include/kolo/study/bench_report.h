#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/scaling/network_fit.h"
#include "kolo/scaling/step_profile.h"

namespace kolo {

// What is measured: the loader alone, training on one batch that is loaded once, and both.
enum class BenchMode : std::uint8_t { io, synthetic, full };

[[nodiscard]] std::string_view bench_mode_name(BenchMode mode);

// A few steps that one rank has done.
struct BenchTrial {
  double seconds = 0;
  double samples = 0;
  double data_seconds = 0;           // of them spent waiting for batches
  double communication_seconds = 0;  // of them spent waiting for other ranks' gradients
};

// The trials of one mode: by rank, then by trial.
struct BenchMeasurement {
  BenchMode mode = BenchMode::io;
  std::vector<std::vector<BenchTrial>> trials;
};

struct BenchSetup {
  std::string configuration, model, data, precision;
  int ranks = 1;
  std::int64_t batch_size = 0;  // a rank
  int threads = 1;              // a rank
  std::int64_t steps = 0, warmup = 0, trials = 0;
};

struct BenchReport {
  BenchSetup setup;
  std::vector<BenchMeasurement> measurements;
  std::vector<std::int64_t> peak_bytes;  // by rank
  // Where they were asked for.
  std::optional<StepProfile> profile = std::nullopt;
  std::optional<CollectiveMeasurement> collectives = std::nullopt;
};

// Of all ranks together: a trial lasts until the slowest rank is done.
[[nodiscard]] std::vector<double> samples_per_second(const BenchMeasurement& measurement);
[[nodiscard]] std::vector<double> milliseconds_per_step(const BenchMeasurement& measurement,
                                                        std::int64_t steps);

// Where the time of training steps goes, as shares that add up to 1; means over ranks and trials.
struct BenchShares {
  double data = 0, communication = 0, compute = 0;
};
[[nodiscard]] BenchShares shares_of(const BenchMeasurement& measurement);

struct BenchVerdict {
  std::string by;   // data | compute | communication
  std::string why;  // a sentence
};
// What bounds the run; none where the full run or its parts were not measured.
[[nodiscard]] std::optional<BenchVerdict> verdict_of(const BenchReport& report);

// For people: a table, the shares, the memory and the verdict.
[[nodiscard]] std::string to_text(const BenchReport& report);
// The same for programs, with every trial.
[[nodiscard]] nlohmann::ordered_json to_json(const BenchReport& report);

}  // namespace kolo
