#pragma once

#include <torch/nn/module.h>

#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "kolo/train/observe/run_log.h"

// Weights that a network begins with instead of those of the seed (model.init_from).
namespace kolo {

// Reads the names, shapes and types that model.init_from's file has, not their values. InputError,
// with the setting's place: there is no such file, folder or checkpoint, it can't be read, or it
// has no parameter of the network's names and shapes.
void require_initial_weights(const RunConfig& config, const torch::nn::Module& network);

// Gives all ranks' networks the file's values, which rank 0 reads. The same errors on rank 0.
// `log`: of rank 0. Collective.
void load_initial_weights(const RunConfig& config, const Communicator& communicator,
                          torch::nn::Module& network, RunLog* log);

}  // namespace kolo
