#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "kolo/train/checkpoint/safetensors.h"
#include "kolo/comm/communicator.h"
#include "kolo/config/run_config.h"
#include "kolo/train/observe/run_log.h"

// Weights that a network begins with instead of those of the seed (model.init_from).
namespace kolo {

// What a network has from a file, by name.
struct InitialWeights {
  std::filesystem::path source;             // the checkpoint's folder, or the file
  std::vector<NamedTensor> fitting;         // as saved; of a file's headers without memory
  std::vector<std::string> missing;         // the network has them, the file hasn't
  std::vector<std::string> unexpected;      // the other way round
  std::vector<std::string> of_other_shape;  // "fc.weight [100, 512] instead of [10, 512]"
};

// Reads the names, shapes and types that model.init_from's file has, not their values. InputError,
// with the setting's place: there is no such file, folder or checkpoint, it can't be read, or it
// has no parameter of the network's names and shapes.
[[nodiscard]] InitialWeights find_initial_weights(const RunConfig& config,
                                                  const torch::nn::Module& network);

// Gives all ranks' networks the file's values, which rank 0 reads. The same errors on rank 0.
// `log`: of rank 0. Collective.
void load_initial_weights(const RunConfig& config, const Communicator& communicator,
                          torch::nn::Module& network, RunLog* log);

}  // namespace kolo
