#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/config/derived_settings.h"
#include "kolo/layout/stage_cut.h"
#include "run/work_part.h"

namespace c10 {
struct Device;
}

// Network that the ranks of a run share in stages (`parallel.pipeline`).
namespace kolo {

class PipelinedNetwork;
class TrainedNetwork;
struct TrainerOptions;

// InputError where the network has too few stages for the pipeline, or none to recompute, or a
// replica's batch can't be cut in so many micro-batches: it says what would fit. Doesn't
// communicate.
void require_pipeline(const RunConfig& config, const Network& network, int ranks);

// Stages of each rank.
struct PipelineCut {
  PipelineShape shape;
  std::vector<std::string> stages;  // the network's
  std::vector<std::size_t> bounds;  // by rank (see PipelineStepOptions)
  std::vector<double> work;         // by rank, in FLOPs per sample
  std::vector<std::int64_t> bytes;  // by rank: sent to the next per micro-batch
  bool has_batch_norms = false;
  std::int64_t micro_batch = 1;  // samples
};

// Lines for the run's log.
[[nodiscard]] std::vector<std::string> describe_pipeline(const RunConfig& config,
                                                         const PipelineCut& cut,
                                                         const Datasets& datasets, int ranks);

// Network as this rank trains it, on its device.
struct RankNetwork {
  std::shared_ptr<TrainedNetwork> trained;  // one of these:
  std::shared_ptr<Network> whole;
  std::shared_ptr<PipelinedNetwork> pipelined;
  std::optional<PipelineCut> cut;  // of the pipeline
};

struct RankNetworkRequest {
  const RunConfig& config;
  const Datasets& datasets;  // as made from the configuration
  const WorkPart& share;
  const Communicator& communicator;
  const c10::Device& device;
  const TrainerOptions& options;
};

// Replaces batch norms where they are synchronized, makes the ranks share samples or the network,
// and the objective count a sample once. Collective.
[[nodiscard]] RankNetwork make_rank_network(const RankNetworkRequest& request,
                                            std::shared_ptr<Network> network, Objective objective);

}  // namespace kolo
