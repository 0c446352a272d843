#include "run/rank_network.h"

#include <utility>

#include "kolo/parallel/sync_batch_norm.h"
#include "kolo/train/objective.h"
#include "run/run_device.h"

namespace kolo {

RankNetwork make_rank_network(const RankNetworkRequest& request, std::shared_ptr<Network> network,
                              Objective& objective) {
  const auto& config = request.config;
  const auto& share = request.share;
  RankNetwork result;
  // Before layers communicate, since counting passes a sample through the network.
  if (share.has_pipeline())
    result.cut = cut_pipeline(config, request.datasets, *network, request.communicator.size());
  const auto& alike = share.has_pipeline() ? share.mesh->replicas() : request.communicator;
  if (config.model.sync_batch_norm && alike.size() > 1) convert_sync_batch_norm(alike, *network);
  share_network(share, request.datasets, *network);
  share_objective(share, request.datasets, objective);
  if (result.cut) {
    result.pipelined = make_pipeline(config, *share.mesh, *result.cut, *network, objective,
                                     request.device, request.timeline);
  } else {
    move_network(*network, config.device, request.device);
    result.whole = std::move(network);
  }
  return result;
}

std::unique_ptr<Trainer> make_trainer(const Communicator& communicator, const RankNetwork& network,
                                      TrainingParts parts, TrainerOptions options) {
  if (network.pipelined) {
    return std::make_unique<Trainer>(communicator, network.pipelined, std::move(parts.optimizer),
                                     std::move(parts.rate), parts.training, parts.validation,
                                     std::move(options));
  }
  return std::make_unique<Trainer>(communicator, network.whole, parts.objective,
                                   std::move(parts.optimizer), std::move(parts.rate),
                                   parts.training, parts.validation, std::move(options));
}

}  // namespace kolo
