#pragma once

#include <vector>

#include "kolo/layout/pipeline_schedule.h"

namespace kolo {

// Actions of all ranks.
struct PipelinePlan {
  PipelineShape shape;
  std::vector<std::vector<PipelineAction>> actions;  // by rank
};
[[nodiscard]] PipelinePlan plan_pipeline(const PipelineShape& shape);

// Time of a stage for a micro-batch, in any unit.
struct StageTimes {
  double forward = 1;
  double backward = 2;
};

struct PipelineTimes {
  std::vector<StageTimes> stages;  // by stage; empty: all stages are alike
  double transfer = 0;             // of an activation or a gradient between two ranks
};

// Computation with its times.
struct PipelineSpan {
  int rank = 0;
  PipelineAction action;
  double begin = 0;
  double end = 0;
};

struct PipelineRankPlay {
  double busy = 0;    // of the makespan
  int most_kept = 0;  // micro-batches, from the beginning of forward to the end of backward
};

struct PipelinePlay {
  double makespan = 0;
  std::vector<PipelineRankPlay> ranks;
  std::vector<PipelineSpan> spans;  // a rank's in order, ranks mixed

  [[nodiscard]] double idle_fraction() const;          // of all ranks' time
  [[nodiscard]] double idle_fraction(int rank) const;  // of that rank's
};

// Plays the actions of all ranks, whose messages match. A send waits until its receive is posted,
// as over the strictest transport (MPI's rendezvous); then the message takes its time, while both
// ranks continue. A forward or backward pass waits for its message. A plan that ends here ends over
// any transport. Error where it can't end.
[[nodiscard]] PipelinePlay play_pipeline(const PipelinePlan& plan, const PipelineTimes& times = {});

}  // namespace kolo
