#pragma once

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
  double step_seconds = 0;     // all of it: data wait, computing, exposed communication, stragglers
  double compute_seconds = 0;  // of a rank without communication; longer where cores are shared
  double communication_seconds = 0;          // that the all-reduces take, hidden or not
  double exposed_communication_seconds = 0;  // that they make the step longer
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
// distributed beyond. Costs a few operations a bucket, whatever the number of ranks.
[[nodiscard]] StepPrediction predict_step(const StepProfile& profile, const NetworkModel& network,
                                          const RankLayout& layout,
                                          const SimulatorOptions& options = {});

// How many standard deviations above the mean the largest of so many normally distributed values
// lies on average: 0 for one, 0.56 for two, 3.85 for ten thousand (Blom, "Statistical estimates and
// transformed beta-variables", 1958).
[[nodiscard]] double expected_maximum(int values);

}  // namespace kolo
