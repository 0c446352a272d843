#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/train/checkpoint/safetensors.h"

namespace kolo {

// Everything that a run needs to go on: weights and buffers, the optimizer's state, and whatever
// else the trainer counts.
struct Checkpoint {
  std::vector<NamedTensor> model;
  std::vector<NamedTensor> optimizer;
  nlohmann::json state = nlohmann::json::object();  // an object; save() sets its "step"
};

// A checkpoint and the folder that it was read from.
struct LoadedCheckpoint {
  std::filesystem::path path;
  std::int64_t step = 0;
  Checkpoint content;
};

}  // namespace kolo
