#pragma once

#include <vector>

#include "predict_study.h"

namespace kolo {

// A part of a forward or backward pass that a rank computes, after its neighbours' rows are there.
struct WorkPiece {
  double measured_seconds = 0;  // that it took in the profile
  double share = 1;             // of them that the rank takes
  double exchange_seconds = 0;  // before it, while the rank waits
};

// Work of a rank in a step. The measured seconds of each pass add up to the profile's.
struct StepWork {
  std::vector<WorkPiece> forward, backward;
  double data_share = 1;  // of the wait for data
};

// Plays a step as predict_step() does, which has one piece per pass. A bucket is ready when as much
// of backward is done as in the profile.
[[nodiscard]] StepPrediction play_step(const StepProfile& profile, const StepWork& work,
                                       const NetworkModel& network, const RankLayout& layout,
                                       const SimulatorOptions& options);

}  // namespace kolo
