#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/observe/study.h"
#include "kolo/scaling/network_fit.h"
#include "kolo/scaling/step_profile.h"
#include "kolo/scaling/step_simulator.h"

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
namespace kolo {

// What bench objects hold: their profiles and collectives, where they were measured.
struct BenchMeasurements {
  std::vector<StepProfile> profiles;
  std::vector<CollectiveMeasurement> collectives;

  // Adds those of one object that `kolo bench --json` printed. Error, naming the field, when it is
  // none.
  void add(const nlohmann::ordered_json& bench);
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
