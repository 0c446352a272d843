#pragma once

#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace kolo::testing {

// A copy of all weights, one after the other.
inline torch::Tensor flat_weights(const torch::nn::Module& network) {
  std::vector<torch::Tensor> flat;
  for (const auto& parameter : network.parameters()) flat.push_back(parameter.detach().flatten());
  return torch::cat(flat).clone();
}

}  // namespace kolo::testing
