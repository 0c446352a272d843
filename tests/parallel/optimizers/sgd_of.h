#pragma once

#include <memory>
#include <vector>

#include <torch/optim/sgd.h>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/distributed_optimizer.h"
#include "kolo/parallel/sharded_optimizer.h"

namespace kolo::testing {

// SGD over all ranks: kolo's, whose state is divided among them, or LibTorch's.
inline std::unique_ptr<torch::optim::Optimizer> sgd_of(const Communicator& communicator,
                                                       const TrainedModules& modules,
                                                       const std::vector<torch::Tensor>& parameters,
                                                       double rate, bool is_sharded) {
  if (is_sharded)
    return std::make_unique<ShardedOptimizer>(communicator, modules, make_sgd({}),
                                              ShardedOptimizerOptions{.learning_rate = rate});
  return std::make_unique<DistributedOptimizer>(communicator, modules,
                                                torch::optim::SGD(parameters, rate));
}

// LibTorch's alone.
inline DistributedOptimizer distributed_sgd(const Communicator& communicator,
                                            const torch::nn::Module& network, double rate,
                                            const DistributedOptimizerOptions& options = {}) {
  return {communicator, network, torch::optim::SGD(network.parameters(), rate), options};
}

}  // namespace kolo::testing
