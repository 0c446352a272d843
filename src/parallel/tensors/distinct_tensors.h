#pragma once

#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace kolo::parallel {

// A tensor of a module, once, with all names that it has there (tied weights, a module that is
// registered twice).
struct DistinctTensor {
  torch::Tensor tensor;
  std::string name;  // the first
  std::vector<std::string> other_names = {};

  [[nodiscard]] bool is_called(const std::string& wanted) const;
  [[nodiscard]] std::string names() const;  // "first.weight", "first.weight (also last.weight)"
};

// In the order of registration; undefined ones are left out.
[[nodiscard]] std::vector<DistinctTensor> distinct_tensors(
    const torch::OrderedDict<std::string, torch::Tensor>& tensors);

// Error where a trainable parameter has elements in common with another parameter or a buffer: one
// would be moved into the arena without the other.
void require_memory_of_their_own(const torch::nn::Module& module);

}  // namespace kolo::parallel
