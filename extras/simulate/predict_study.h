#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/train/observe/bench_records.h"
#include "network_model.h"

namespace kolo {

// The profile at another batch size: each time is a straight line through what was measured, t = a
// + b batch (least squares), with a and b at least 0; the optimizer's does not depend on the batch.
// All profiles are of one network and one bucket plan, with equal ranks on a node and equal
// devices. With one alone, times other than the optimizer's are taken as proportional to the batch.
//
// InputError: no profile, or they don't belong together.
[[nodiscard]] StepProfile profile_at_batch(std::span<const StepProfile> profiles,
                                           std::int64_t batch_size);

struct SimulatorOptions {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::hierarchical;
  // Share of its processor that the communication thread takes from computing where a node has no
  // core to spare for it. 1: they take turns, as is measured in shared memory and over TCP, which
  // live on the processor. 0: the network card does everything.
  double processor_share = 1;
  // Threads that share a core do not all run when a collective needs them: so long a step waits for
  // their turns, at most half of backward, or as long as for stragglers, whichever is longer. About
  // a time slice of Linux; measured, not derived. Counts where a node has more ranks than cores,
  // and where MPI, which polls, has no core to spare.
  double turn_seconds = 2.5e-3;
  bool stragglers = true;  // the slowest of many ranks decides when a step ends
};

struct StepPrediction {
  double step_seconds =
      0;  // all of it: data wait, computing, exposed communication, halos, stragglers
  double compute_seconds = 0;  // of a rank without communication; longer where cores are shared
  double communication_seconds = 0;          // that the all-reduces take, hidden or not
  double exposed_communication_seconds = 0;  // that they make the step longer
  double halo_seconds = 0;       // in which a rank waits for rows of others that share its samples
  double straggler_seconds = 0;  // that a rank waits for the slowest one, on average, beyond turns
  double data_wait_seconds = 0;
};

// Plays a step of one rank: forward, backward, in which the buckets become ready one after another;
// a communication thread that averages them in this order; and the update of each. All ranks do the
// same at once. Like kolo's trainer, each step also adds up the metrics (after forward) and agrees
// on the step (after the last bucket): two messages of some bytes.
//
// Computing takes as many times longer as the fullest core has ranks, relative to what the
// profile's ranks had, if a node has more ranks (times threads) than cores. How much
// longer the slowest rank takes is measured for as many ranks as the profile is of, and normally
// distributed beyond. A profile of a device is one of ranks with a device each, which share no
// core: nothing takes turns or computes longer, and additions are the device's. Costs a few
// operations a bucket, whatever the number of ranks.
[[nodiscard]] StepPrediction predict_step(const StepProfile& profile, const NetworkModel& network,
                                          const RankLayout& layout,
                                          const SimulatorOptions& options = {});

// Mean of the largest of so many normally distributed values, in standard deviations above the mean
// of all: 0 for one, 0.56 for two, 3.85 for ten thousand (Blom, "Statistical estimates and
// transformed beta-variables", 1958).
[[nodiscard]] double expected_maximum(int values);

// Points of a scaling study beyond the machine. What must be measured for it, a step and the
// network, as one JSON object on standard output (BenchMeasurements::add() takes it):
//
//   kolo bench FILE -n K --mode full --profile --json
//
// K is how many ranks the nodes to predict will have: on the machine at hand at most as many as it
// has cores, so that neighbours' share of memory bandwidth is measured and not guessed. --mode full
// adds the wait for data; with --mode synthetic or io it is taken as 0. For strong scaling, in
// which the batch of a rank shrinks, profiles at two or more batch sizes (training.batch_size=64,
// then =16, which fixes it per rank) that enclose the batches to predict. Times between nodes are
// fitted where a bench ran on several nodes; otherwise they come from a named network
// (network_named()).

// Profiles and collectives of bench objects, where they were measured.
struct BenchMeasurements {
  std::vector<StepProfile> profiles;
  std::vector<CollectiveMeasurement> collectives;

  // Adds those of one object that `kolo bench --json` printed. Error, naming the field, when it is
  // none.
  void add(const nlohmann::ordered_json& bench);
  // Collectives of memory like the profiles', the devices' or the host's.
  [[nodiscard]] std::vector<CollectiveMeasurement> collectives_of_profiled() const;
};

struct StudyPrediction {
  // From kolo bench; of the profiles, those with as many ranks on a node as the target has are
  // taken, or the nearest number.
  std::vector<StepProfile> profiles;
  NetworkModel network;
  SimulatorOptions options;
  int ranks_per_node = 1;
  int cores_per_node = 1;
  // true: `batch_size` is that of all ranks and each gets a part; false: of a rank.
  bool is_strong = false;
  std::int64_t batch_size = 1;
  // Above 0: epochs have as many, in whole steps, and epoch_seconds is predicted.
  std::int64_t samples_per_epoch = 0;
};

// A number of ranks and what is predicted for it.
struct PredictedPoint {
  int ranks = 1, nodes = 1;
  std::int64_t batch_size = 0;        // a rank, or where ranks share samples all of them
  std::vector<std::int64_t> spatial;  // ranks along each axis of a sample; empty: each has its own
  double step_seconds = 0, samples_per_second = 0;
  double exposed_communication_seconds = 0;  // with the wait for stragglers
  double data_wait_seconds = 0;
  double epoch_seconds = 0;  // in whole steps, the last one with fewer samples; 0: not asked for
  double kept_bytes = 0;     // of a rank for backward, where ranks share samples
};

// A point a rank count. For weak scaling one profile at that batch size suffices.
//
// InputError: no profiles, a rank count below 1, or a global batch that is not a multiple of it (it
// names the rank count).
[[nodiscard]] std::vector<PredictedPoint> predict_points(const StudyPrediction& prediction,
                                                         std::span<const int> rank_counts);

// The step alone, in full.
[[nodiscard]] StepPrediction predict_ranks(const StudyPrediction& prediction, int ranks);

// Seconds of an epoch in whole steps.
[[nodiscard]] double epoch_seconds(std::int64_t samples, std::int64_t batch, double step_seconds);

}  // namespace kolo
