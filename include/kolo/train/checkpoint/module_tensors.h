#pragma once

#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "kolo/train/checkpoint/safetensors.h"

// From a module to a checkpoint's tensors and back.
namespace kolo {

// By name; the very tensors, detached.
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
