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

// Layers that ranks share against LibTorch's on one rank.
namespace kolo::testing {

// The same numbers on all ranks, without LibTorch's generator, which ranks that are threads share.
inline torch::Tensor waves(const std::vector<std::int64_t>& shape, double frequency,
                           torch::ScalarType type = torch::kDouble) {
  const auto count = c10::multiply_integers(shape);
  return torch::sin(torch::arange(count, torch::kDouble) * frequency).view(shape).to(type);
}

// Numbers from -1 to 1 without a pattern.
inline torch::Tensor noise(const std::vector<std::int64_t>& shape, std::int64_t seed) {
  const auto count = c10::multiply_integers(shape);
  const auto index = torch::arange(count, torch::kDouble) + static_cast<double>(1000 * seed);
  return torch::frac(torch::sin(index * 12.9898) * 43758.5453).view(shape);
}

// All values together: sums in another order leave small values no more digits than large ones.
inline double relative_difference(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.sizes() != b.sizes()) return INFINITY;
  if (b.numel() == 0) return 0;
  const auto wide = b.to(torch::kDouble);
  const auto scale = wide.abs().max().item<double>();
  const auto difference = (a.to(torch::kDouble) - wide).abs().max().item<double>();
  return scale > 0 ? difference / scale : difference;
}

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
