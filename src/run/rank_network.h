#pragma once

#include <memory>
#include <optional>

#include "kolo/comm/communicator.h"
#include "kolo/config/derived_settings.h"
#include "kolo/parallel/timeline.h"
#include "kolo/train/pipelined_network.h"
#include "kolo/train/trainer.h"
#include "run/pipeline_share.h"
#include "run/work_share.h"

// From the network that a configuration describes to what a rank trains of it.
namespace kolo {

// As this rank trains it: one of the two, on its device.
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
  torch::Device device;
  Timeline timeline = {};
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
