#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kolo/train/checkpoint/safetensors.h"

namespace torch::nn {
class Module;
}

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

// A module's tensors by name; the very tensors, detached.
[[nodiscard]] std::vector<NamedTensor> module_parameters(const torch::nn::Module& module);
[[nodiscard]] std::vector<NamedTensor> module_buffers(const torch::nn::Module& module);
// Parameters, then buffers.
[[nodiscard]] std::vector<NamedTensor> module_tensors(const torch::nn::Module& module);

// InputError unless both hold the same names with the same shapes: it names the first difference.
void require_same_tensors(const std::vector<NamedTensor>& saved,
                          const std::vector<NamedTensor>& wanted);

// The saved tensor of that name; Error unless it is there and of this shape.
[[nodiscard]] const torch::Tensor& saved_tensor(const std::vector<NamedTensor>& saved,
                                                const std::string& name, torch::IntArrayRef sizes);
// Writes the saved tensors' values into those of the same names.
void copy_tensors(const std::vector<NamedTensor>& saved, const std::vector<NamedTensor>& into);

}  // namespace kolo
