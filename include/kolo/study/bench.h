#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/base/enum_names.h"
#include "kolo/comm/device.h"
#include "kolo/config/run_config.h"
#include "kolo/layout/pipeline_schedule.h"
#include "kolo/layout/spatial_network.h"
#include "kolo/run/run.h"
#include "kolo/train/observe/bench_records.h"

// `kolo bench`: its plan, its measurements, and the report on them.
namespace kolo {

// Modes: the loader alone, training on one batch that is loaded once, and both.
enum class BenchMode : std::uint8_t { io, synthetic, full };

constexpr auto enum_names(BenchMode) {
  return std::to_array<EnumName<BenchMode>>(
      {{BenchMode::io, "io"}, {BenchMode::synthetic, "synthetic"}, {BenchMode::full, "full"}});
}

// A few steps of one rank.
struct BenchTrial {
  double seconds = 0;
  double samples = 0;                // where ranks share samples, this rank's share of them
  double data_seconds = 0;           // part of them spent waiting for batches
  double communication_seconds = 0;  // part of them spent waiting for other ranks' gradients
};

// The halos of one rank that shares samples.
struct HaloUse {
  double bytes = 0, messages = 0;  // sent
  // Time from this rank's request for rows until they are there; includes waiting for the other
  // rank and copying of its own rows.
  double seconds = 0;
};

// The trials of one mode, by rank, then by trial.
struct BenchMeasurement {
  BenchMode mode = BenchMode::io;
  std::vector<std::vector<BenchTrial>> trials;
  // By rank, per step, without the warm-up; empty where ranks share no samples.
  std::vector<HaloUse> halos = {};
};

struct BenchSetup {
  std::string configuration, model, data, precision;
  int ranks = 1;
  std::int64_t batch_size = 0;  // a replica, or a virtual rank
  int threads = 1;              // a rank
  std::int64_t steps = 0, warmup = 0, trials = 0;
  int ranks_per_replica = 1;  // ranks that share its samples or its network
  int virtual_ranks = 0;      // of all ranks together; 0: none
};

// Waits of a pipeline's ranks for each other, as shares of the time that the passes of a batch
// take.
struct BenchPipeline {
  PipelineShape shape;
  std::vector<double> idle_fractions;  // by rank, as measured; with devices by the host's clock
  double ideal = 0;                    // with equal parts (ideal_idle_fraction())
};

// A layer with parameters, in a training step of one rank: medians, and the least that its products
// and the values that it reads and writes could take at the machine's speeds.
struct LayerTime {
  std::string name, kind;
  double forward_seconds = 0, backward_seconds = 0;
  double forward_least = 0, backward_least = 0;
};

struct LayerProfile {
  double operations_per_second = 0;  // in products of large matrices, while all ranks make some
  double bytes_per_second = 0;       // read and written in copies of memory
  std::vector<LayerTime> layers;
  double rest_seconds = 0;  // of a step, outside of the layers: loss, update and the like
};

struct BenchReport {
  BenchSetup setup;
  std::vector<BenchMeasurement> measurements;
  std::vector<std::int64_t> peak_bytes;  // by rank
  // By rank, where they train on devices.
  std::vector<DeviceMemoryUse> device_memory = {};
  std::optional<BenchPipeline> pipeline = std::nullopt;  // of the last mode that trains
  // Cut of the samples, if ranks share them.
  std::optional<SpatialNetworkPlan> sample_cut = std::nullopt;
  // Measured on request.
  std::optional<StepProfile> profile = std::nullopt;
  std::optional<LayerProfile> layers = std::nullopt;  // of rank 0, on CPUs
  std::optional<CollectiveMeasurement> collectives = std::nullopt;
};

// Rates of all ranks together: a trial lasts until the slowest rank is done.
[[nodiscard]] std::vector<double> samples_per_second(const BenchMeasurement& measurement);
[[nodiscard]] std::vector<double> milliseconds_per_step(const BenchMeasurement& measurement,
                                                        std::int64_t steps);

// The rate of the trial in the middle, and those at the quarters of all.
struct BenchRate {
  double median = 0, lower = 0, upper = 0;
  std::size_t trial = 0;  // the median's

  [[nodiscard]] double spread() const { return (upper - lower) / median; }
  // True if trials differ so much that other programs must have had their part in them.
  [[nodiscard]] bool is_noisy() const { return spread() > most_spread; }
  static constexpr double most_spread = .15;
};
[[nodiscard]] BenchRate rate_of(const BenchMeasurement& measurement);

// Shares of the time of training steps, which add up to 1; means over ranks and the middle half of
// the trials.
struct StepFractions {
  double data = 0, communication = 0, compute = 0;
};
[[nodiscard]] StepFractions fractions_of(const BenchMeasurement& measurement);

struct BenchVerdict {
  std::string by;   // data | compute | communication
  std::string why;  // a sentence
};
// Verdict on what bounds the run; none if the full run or its parts were not measured, or the
// trials differ so much that it can't be told, or both together were faster than a part.
[[nodiscard]] std::optional<BenchVerdict> verdict_of(const BenchReport& report);

// For people: a table, the shares, the memory and the verdict.
[[nodiscard]] std::string to_text(const BenchReport& report);
// The same for programs, with every trial.
[[nodiscard]] nlohmann::ordered_json to_json(const BenchReport& report);

struct BenchPlan {
  std::int64_t steps = 10;  // a trial
  std::int64_t warmup = 5;  // steps before the first trial
  std::int64_t trials = 5;
  // Called after each step on this rank, the warm-up's too.
  std::function<void()> step_done = [] {};
  // Runtime of the device that is measured; none: cuda_runtime().
  std::shared_ptr<const DeviceRuntime> device_runtime = nullptr;

  [[nodiscard]] std::int64_t all_steps() const { return warmup + trials * steps; }
};

// A configuration to measure.
struct BenchRequest {
  ConfigSource config;
  RunComponents components = {};  // of the program
  std::vector<BenchMode> modes = {BenchMode::io, BenchMode::synthetic, BenchMode::full};
  BenchPlan plan;  // without step_done
  // Also the parts of a step without communication, on CPUs each layer, and, of several ranks,
  // all-reduces among them and messages between neighbours.
  bool profile = false;
};

// Called on each rank, as run() is, and returns the same statuses, or throws where the rank is
// alone; rank 0 shows a bar for each part, and calls `done` at the end. Nothing is written to disk,
// and what is trained is lost.
[[nodiscard]] int bench_run(const BenchRequest& request,
                            const std::function<void(const BenchReport&)>& done);

// Checks a request before ranks are started: InputError for what bench_run() would refuse. Returns
// the configuration.
RunConfig check_bench(const BenchRequest& request, int ranks);

}  // namespace kolo
