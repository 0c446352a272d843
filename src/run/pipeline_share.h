#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kolo/config/derived_settings.h"
#include "kolo/layout/stage_cut.h"
#include "run/work_share.h"

namespace c10 {
struct Device;
}

// How the ranks of a run share a network, as `parallel.pipeline` says.
namespace kolo {

class FlatOptimizer;
class Loader;
class PipelinedNetwork;
class Timeline;
class Trainer;
struct TrainerOptions;

// InputError where the network has too few stages for the pipeline, or none though it is to be
// recomputed, or a replica's batch can't be cut in so many micro-batches: it says what would fit.
// Before anything starts, and without communication.
void require_pipeline(const RunConfig& config, const Network& network, int ranks);

// Which rank has what.
struct PipelineCut {
  PipelineShape shape;
  std::vector<std::string> stages;  // the network's
  std::vector<std::size_t> bounds;  // by rank (see PipelineStepOptions)
  std::vector<double> work;         // by rank, in FLOPs per sample
  std::vector<std::int64_t> bytes;  // by rank: sent to the next, per micro-batch
  bool has_batch_norms = false;     // the network
  std::int64_t micro_batch = 1;     // samples
};

// Cuts the network so that the ranks have about equally many FLOPs: the same on all ranks, each
// time. Forgets how samples are shared (Network::share_samples()). Local.
[[nodiscard]] PipelineCut cut_pipeline(const RunConfig& config, const Datasets& datasets,
                                       Network& network, int ranks);

// For the run's log: who has what, and what is different in a pipeline.
[[nodiscard]] std::vector<std::string> describe_pipeline(const RunConfig& config,
                                                         const PipelineCut& cut,
                                                         const Datasets& datasets, int ranks);

// The network as this rank trains it: one of the two, on its device.
struct RankNetwork {
  std::shared_ptr<Network> whole;
  std::shared_ptr<PipelinedNetwork> pipelined;
  std::optional<PipelineCut> cut;  // of the pipeline
};

struct RankNetworkRequest {
  const RunConfig& config;
  const Datasets& datasets;  // whole, as made from the configuration
  const WorkShare& share;
  const Communicator& communicator;
  const c10::Device& device;
  const Timeline& timeline;
};

// Replaces batch norms where they are synchronized, has the ranks share samples or the network, and
// the objective count a sample once. Of a network in parts the others go where nobody else has
// them. Collective.
[[nodiscard]] RankNetwork make_rank_network(const RankNetworkRequest& request,
                                            std::shared_ptr<Network> network, Objective& objective);

struct TrainingParts {
  const Objective& objective;
  std::unique_ptr<FlatOptimizer> optimizer;
  LearningRate rate;
  Loader &training, &validation;
};

// Collective.
[[nodiscard]] std::unique_ptr<Trainer> make_trainer(const Communicator& communicator,
                                                    const RankNetwork& network, TrainingParts parts,
                                                    TrainerOptions options);

}  // namespace kolo
