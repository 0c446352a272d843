#pragma once

#include <cstdint>
#include <vector>

#include "kolo/layout/pipeline_play.h"
#include "kolo/scaling/network_model.h"
#include "kolo/scaling/predict_study.h"
#include "kolo/scaling/step_profile.h"

namespace kolo {

// A step of a pipeline (kolo/layout/pipeline_schedule.h), before it is ever run: the lists that the
// ranks work off, played with measured times, then the averaging over replicas.

// A stage of a network as it takes a micro-batch.
struct PipelineStageProfile {
  StageTimes seconds;
  std::int64_t bytes_after = 0;  // of its activation, and as many of that one's gradient
  std::int64_t kept_bytes = 0;   // that backward needs
  double optimizer_seconds = 0;
  // Gradients, in the order in which backward finishes them.
  std::vector<BucketProfile> buckets;
};

struct PipelineProfile {
  PipelineShape shape;
  std::vector<PipelineStageProfile> stages;
  // Whether each rank has a device of its own; otherwise it has as many threads of the node's
  // cores, all of which were free where the times were measured.
  bool is_on_devices = false;
  int threads = 1;
  // Buckets are updated as soon as they are averaged, rather than when all of all ranks are.
  bool updates_by_bucket = true;
};

struct PipelinePrediction {
  double step_seconds = 0;      // all of it
  double pipeline_seconds = 0;  // to the end of the last pass
  double compute_seconds = 0;   // of the rank that computes longest, in passes
  // Of the ranks' time to the end of the last pass; and as equal stages without messages have it.
  double idle_share = 0;
  double ideal_idle_share = 0;
  double communication_seconds = 0;          // of all-reduces, of the rank with most of them
  double exposed_communication_seconds = 0;  // that they make the step longer
  std::vector<std::int64_t> kept_bytes;      // at most, by rank of the pipeline
};

// The ranks of the layout are `replicas` for each rank of the pipeline, which are neighbours, as in
// MeshShape. A message takes alpha + n beta, while both ranks go on; where it leaves the node, all
// replicas that send from there share its connection. Gradients are averaged once, with the last
// micro-batch, over the replicas of a rank, beside its passes, which that doesn't slow down;
// before the end all ranks agree on the step. Stages take as many times longer as the fullest core
// has threads.
//
// InputError: numbers that plan_pipeline() or play_pipeline() refuses, another number of stages
// than the shape has, or a link that is not known; Error: the layout's ranks are not a multiple of
// the pipeline's. Costs O(micro-batches stages).
[[nodiscard]] PipelinePrediction predict_pipeline_step(const PipelineProfile& profile,
                                                       const NetworkModel& network,
                                                       const RankLayout& layout,
                                                       const SimulatorOptions& options = {});

}  // namespace kolo
