#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

namespace kolo::testing {

// A network with parameters of several sizes and a buffer; the same weights for the same seed,
// without LibTorch's generator, which ranks that are threads share.
struct SmallNetwork : torch::nn::Module {
  explicit SmallNetwork(std::int64_t hidden = 7, int seed = 1)
      : first(5, hidden), second(hidden, 3) {
    register_module("first", first);
    register_module("second", second);
    calls = register_buffer("calls", torch::zeros({2}));
    const torch::NoGradGuard no_gradient;
    for (auto& parameter : parameters()) {
      parameter.copy_(
          torch::sin(torch::arange(parameter.numel()) * (seed + .3)).view(parameter.sizes()) * .5);
    }
  }

  torch::Tensor forward(const torch::Tensor& input) { return second(torch::tanh(first(input))); }

  torch::nn::Linear first, second;
  torch::Tensor calls;
};

// Sample i of an endless data set: the same on every rank.
inline torch::Tensor samples(std::int64_t begin, std::int64_t end,
                             torch::ScalarType type = torch::kFloat) {
  const auto index = torch::arange(begin, end, torch::kDouble).unsqueeze(1);
  return torch::sin(index * torch::arange(1, 6, torch::kDouble) * 0.7).to(type);
}

inline torch::Tensor mean_loss(SmallNetwork& network, const torch::Tensor& input) {
  return network.forward(input).square().sum(1).mean();
}

}  // namespace kolo::testing
