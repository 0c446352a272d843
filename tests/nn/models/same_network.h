#pragma once

#include <string>

#include <gtest/gtest.h>
#include <torch/nn/functional.h>

#include "kolo/nn/network.h"

// Helpers of the networks' tests.
namespace kolo::testing {

using Parameters = torch::OrderedDict<std::string, torch::Tensor>;

inline std::int64_t parameter_count(const torch::nn::Module& module) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : module.parameters()) count += parameter.numel();
  return count;
}

// A convolution and a batch norm over the batch's own statistics, by the parameters' names.
inline torch::Tensor plain_convolution(const Parameters& parameters, const std::string& name,
                                       const torch::Tensor& x, std::int64_t stride,
                                       std::int64_t padding) {
  auto options = torch::nn::functional::Conv2dFuncOptions().stride(stride).padding(padding);
  if (const auto* bias = parameters.find(name + ".bias")) options.bias(*bias);
  return torch::nn::functional::conv2d(x, parameters[name + ".weight"], options);
}

inline torch::Tensor plain_batch_norm(const Parameters& parameters, const std::string& name,
                                      const torch::Tensor& x, double epsilon) {
  const torch::Tensor mean = x.mean({0, 2, 3}, /*keepdim=*/true);
  const torch::Tensor variance = (x - mean).square().mean({0, 2, 3}, /*keepdim=*/true);
  const auto shaped = [&](const char* what) { return parameters[name + what].view({1, -1, 1, 1}); };
  return (x - mean) / (variance + epsilon).sqrt() * shaped(".weight") + shaped(".bias");
}

// The network, in float64 so that only a difference in what is computed counts, and `plain`, which
// writes it down a second time, have the same outputs and gradients of all parameters and input.
inline void expect_same_network(
    Network& network, const std::function<torch::Tensor(const Parameters&, torch::Tensor)>& plain,
    const torch::Tensor& random_input) {
  network.to(torch::kFloat64);
  const Parameters parameters = network.named_parameters();
  auto inputs = network.parameters();
  inputs.push_back(random_input.to(torch::kFloat64).requires_grad_());

  const torch::Tensor output = network.forward(inputs.back());
  const torch::Tensor expected = plain(parameters, inputs.back());
  ASSERT_EQ(output.sizes(), expected.sizes());
  EXPECT_TRUE(torch::allclose(output, expected, 1e-8, 1e-9));

  const torch::Tensor slope = torch::randn(output.sizes(), torch::kFloat64);
  const auto gradients = torch::autograd::grad({output}, inputs, {slope});
  const auto expected_gradients = torch::autograd::grad({expected}, inputs, {slope});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const double error = (gradients[i] - expected_gradients[i]).abs().max().item<double>();
    const double scale = expected_gradients[i].abs().max().item<double>();
    EXPECT_LE(error, 1e-7 * scale + 1e-9)
        << (i < parameters.size() ? parameters.keys()[i] : "the input");
  }
}

}  // namespace kolo::testing
