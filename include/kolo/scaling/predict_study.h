#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/observe/study.h"
#include "kolo/scaling/network_model.h"
#include "kolo/scaling/step_profile.h"

namespace kolo {

struct SimulatorOptions {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::hierarchical;
  // How much of its processor the communication thread takes from computing where a node has no
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
// Where the layout has more ranks (times threads) on a node than cores, computing takes as many
// times longer as the fullest core has ranks, relative to what the profile's ranks had. How much
// longer the slowest rank takes is measured for as many ranks as the profile is of, and normally
// distributed beyond. A profile of a device is one of ranks with a device each, which share no
// core: nothing takes turns or computes longer, and additions are the device's. Costs a few
// operations a bucket, whatever the number of ranks.
[[nodiscard]] StepPrediction predict_step(const StepProfile& profile, const NetworkModel& network,
                                          const RankLayout& layout,
                                          const SimulatorOptions& options = {});

// How many standard deviations above the mean the largest of so many normally distributed values
// lies on average: 0 for one, 0.56 for two, 3.85 for ten thousand (Blom, "Statistical estimates and
// transformed beta-variables", 1958).
[[nodiscard]] double expected_maximum(int values);

// Points of a scaling study beyond the machine. What must be measured for it, each one JSON object
// on standard output (BenchMeasurements::add() takes it):
//
//   kolo bench FILE -n K --mode full --profile --json          the step, K = ranks on a node
//   kolo bench FILE -n K --mode io --collectives --json        the network; skip where K is 1
//
// Both at once (`--mode full --profile --collectives`) is fine. K is how many ranks the nodes to
// predict will have: on the machine at hand at most as many as it has cores, so that neighbours'
// share of memory bandwidth is measured and not guessed. --mode full adds the wait for data; with
// --mode synthetic or io it is taken as 0. For strong scaling, in which the batch of a rank
// shrinks, profiles at two or more batch sizes (training.batch_size=64, then =16, which fixes it
// per rank) that enclose the batches to predict. Times between nodes are fitted where a bench ran
// on several nodes; otherwise they come from a named network (network_named()).

// What bench objects hold: their profiles and collectives, where they were measured.
struct BenchMeasurements {
  std::vector<StepProfile> profiles;
  std::vector<CollectiveMeasurement> collectives;

  // Adds those of one object that `kolo bench --json` printed. Error, naming the field, when it is
  // none.
  void add(const nlohmann::ordered_json& bench);
  // Of the collectives those of memory like the profiles', the devices' or the host's.
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

// One point a rank count, `predicted`, with the results step_seconds, samples_per_second,
// epoch_seconds, exposed_communication_seconds (with the wait for stragglers) and
// data_wait_seconds; lr_scaling and warmup_epochs, which don't change them, are left to the caller.
// For weak scaling one profile at that batch size suffices.
//
// InputError: no profiles, a rank count below 1, or a global batch that is not a multiple of it (it
// names the rank count).
[[nodiscard]] std::vector<StudyPoint> predict_points(const StudyPrediction& prediction,
                                                     std::span<const int> rank_counts);

// The same in full, for one rank count.
[[nodiscard]] StepPrediction predict_ranks(const StudyPrediction& prediction, int ranks);

}  // namespace kolo
