#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "kolo/data/loader.h"
#include "kolo/layout/pipeline_schedule.h"
#include "kolo/layout/spatial_network.h"
#include "kolo/nn/network.h"
#include "kolo/observe/bench_records.h"
#include "kolo/parallel/device_memory.h"
#include "kolo/parallel/device_usage.h"
#include "kolo/train/trainer.h"

// What a bench has measured and what it tells; how it is measured, of any trainer; and a whole
// bench.
namespace kolo {

// What is measured: the loader alone, training on one batch that is loaded once, and both.
enum class BenchMode : std::uint8_t { io, synthetic, full };

[[nodiscard]] std::string_view bench_mode_name(BenchMode mode);

// A few steps that one rank has done.
struct BenchTrial {
  double seconds = 0;
  double samples = 0;                // where ranks share samples, this rank's share of them
  double data_seconds = 0;           // of them spent waiting for batches
  double communication_seconds = 0;  // of them spent waiting for other ranks' gradients
};

// The halos of one rank that shares samples.
struct HaloUse {
  double bytes = 0, messages = 0;  // sent
  // In which rows are under way, from when this rank asks for them until they are there: it waits
  // for the other rank too, and copies its own rows meanwhile.
  double seconds = 0;
};

// The trials of one mode: by rank, then by trial; and what the devices took meanwhile.
struct BenchMeasurement {
  BenchMode mode = BenchMode::io;
  std::vector<std::vector<BenchTrial>> trials;
  // By rank, with the warm-up, where devices tell; without seconds for the device of an earlier
  // rank.
  std::vector<DeviceUsage> device_usage = {};
  // By rank, per step, without the warm-up; empty where ranks share no samples.
  std::vector<HaloUse> halos = {};
};

struct BenchSetup {
  std::string configuration, model, data, precision;
  int ranks = 1;
  std::int64_t batch_size = 0;  // a replica
  int threads = 1;              // a rank
  std::int64_t steps = 0, warmup = 0, trials = 0;
  int ranks_per_replica = 1;  // that share its samples or its network
};

// How long the ranks of a pipeline wait for each other, as shares of the time that they take for
// the passes of a batch.
struct BenchPipeline {
  PipelineShape shape;
  std::vector<double> idle_shares;  // by rank, as measured; on a device of the host's time
  double ideal = 0;                 // of the schedule, with equal parts (ideal_idle_share())
};

struct BenchReport {
  BenchSetup setup;
  std::vector<BenchMeasurement> measurements;
  std::vector<std::int64_t> peak_bytes;  // by rank
  // By rank, where they train on devices.
  std::vector<DeviceMemoryUse> device_memory = {};
  std::optional<BenchPipeline> pipeline = std::nullopt;  // of the last mode that trains
  // Where ranks share samples.
  std::optional<SpatialNetworkPlan> sample_cut = std::nullopt;
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

// How long steps of a trainer and batches of a loader take, whoever has made them.

struct BenchPlan {
  std::int64_t steps = 10;  // a trial
  std::int64_t warmup = 5;  // steps before the first trial
  std::int64_t trials = 5;
  // Is told of each step that is done, the warm-up's too, on whatever rank has it.
  std::function<void()> step_done = [] {};
  // Of the device that is measured; none: cuda_runtime().
  std::shared_ptr<const DeviceRuntime> device_runtime = nullptr;

  [[nodiscard]] std::int64_t all_steps() const { return warmup + trials * steps; }
};

// Measures on this rank; trials follow each other without a pause, so that the loader's queue is as
// in the midst of a training. A device is waited for where a trial begins and ends, and nowhere
// else; parts of steps have the device's own times (DeviceClock). Collective.
//
// The loader alone: how fast batches can be had.
[[nodiscard]] std::vector<BenchTrial> measure_loader(const Communicator& communicator,
                                                     Loader& loader, const BenchPlan& plan);
// Training steps on one batch, loaded once.
[[nodiscard]] std::vector<BenchTrial> measure_steps(const Communicator& communicator,
                                                    Trainer& trainer, Loader& loader,
                                                    const BenchPlan& plan);
// Training steps on the loader's batches.
[[nodiscard]] std::vector<BenchTrial> measure_training(const Communicator& communicator,
                                                       Trainer& trainer, Loader& loader,
                                                       const BenchPlan& plan);

// The first one of an epoch.
[[nodiscard]] Batch first_batch(Loader& loader);

// All ranks' trials, by rank. Collective.
[[nodiscard]] std::vector<std::vector<BenchTrial>> gather(const Communicator& communicator,
                                                          const std::vector<BenchTrial>& mine);

// A step without communication, and collectives without a step: steps on more ranks are predicted
// from them (extras/simulate).

// A trainer's steps on one batch, on all ranks at once, but without averaging gradients
// (ReducerOptions::communicate is false), so that the ranks share caches and memory as they do in a
// training. What the trainer's options decide, the data wait among it, is left to the caller.
// Collective.
[[nodiscard]] StepProfile measure_profile(const Communicator& communicator, Trainer& trainer,
                                          const Network& network, Loader& loader,
                                          const BenchPlan& plan);

// All-reduces of 4 KiB to 64 MiB of float32 (or until one takes half a second), as gradients are
// averaged: asynchronously, in memory that every rank has just written, from
// Communicator::allocate() or, by the device's times, on this rank's device; then messages of up to
// 16 MiB that pairs of neighbours send each other, as ranks that share samples do. Medians of many
// calls. Collective.
[[nodiscard]] CollectiveMeasurement measure_collectives(const Communicator& communicator,
                                                        const torch::Device& device = torch::kCPU);

// A configuration measured, as `kolo bench` does it.

struct BenchRequest {
  ConfigSource config;
  std::vector<BenchMode> modes = {BenchMode::io, BenchMode::synthetic, BenchMode::full};
  BenchPlan plan;            // but for step_done
  bool profile = false;      // also the parts of a step without communication
  bool collectives = false;  // also all-reduces among the ranks and messages between neighbours
};

// What rank 0 is told meanwhile.
struct BenchListener {
  std::function<void(const std::string&)> warning;
  std::function<void(const std::string& part, std::int64_t steps)> part_begins;
  std::function<void()> step_done, parts_end;
  std::function<void(const BenchReport&)> report;  // at the end
};

// Called on each rank, as run() is, and returns the same statuses, or throws where the rank is
// alone. Nothing is written to disk, and what is trained is lost.
[[nodiscard]] int bench_run(const BenchRequest& request, const BenchListener& listener);

// InputError for what bench_run() would refuse: for who starts the ranks. Returns the
// configuration.
RunConfig check_bench(const BenchRequest& request, int ranks);

}  // namespace kolo
