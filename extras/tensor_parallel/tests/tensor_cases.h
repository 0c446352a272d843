#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/parallel/device_mesh.h"
#include "kolo/tensor_parallel/parameter_parts.h"
#include "support/numbers.h"

// Layers that ranks share against LibTorch's on one rank.
namespace kolo::testing {

using WholeParameters = torch::OrderedDict<std::string, torch::Tensor>;

inline DeviceMesh tensor_mesh(const Communicator& communicator) {
  return DeviceMesh(communicator, {.tensor = communicator.size()});
}

inline double tolerance_of(torch::ScalarType type) {
  return type == torch::kDouble ? 1e-12 : 1e-6;
}

// The same numbers for the same module on every rank, about as large as LibTorch's at first.
inline void set_numbers(torch::nn::Module& module) {
  const torch::NoGradGuard no_gradient;
  std::int64_t index = 0;
  for (auto& parameter : module.parameters()) {
    const auto inputs = static_cast<double>(parameter.numel() / parameter.size(0));
    parameter.copy_(noise(parameter.sizes().vec(), ++index) / std::sqrt(inputs) + .02);
  }
}

// A reference's parameters, by the names that the cut layers have for them; or their gradients.
inline WholeParameters values_of(const torch::nn::Module& reference,
                                 const std::function<std::string(std::string)>& name_of) {
  WholeParameters values;
  for (const auto& item : reference.named_parameters())
    values.insert(name_of(item.key()), item.value().detach().clone());
  return values;
}

inline std::string same_name(std::string name) {
  return name;
}

// Gradients in the place of values: for whole_parameters().
inline WholeParameters whole_gradients(const Communicator& group, const torch::nn::Module& module) {
  WholeParameters whole;
  std::map<std::string, ParameterCut> cuts;
  for (const auto& [name, cut] : cut_parameters(module)) cuts.emplace(name, cut);
  for (const auto& item : module.named_parameters()) {
    const auto& gradient = item.value().grad();
    const auto cut = cuts.find(item.key());
    whole.insert(item.key(),
                 cut == cuts.end() ? gradient : whole_parameter(group, gradient, cut->second));
  }
  return whole;
}

inline void expect_close(const torch::Tensor& actual, const torch::Tensor& expected,
                         double tolerance, const std::string& what) {
  EXPECT_LE(relative_difference(actual.detach(), expected.detach()), tolerance) << what;
}

}  // namespace kolo::testing
