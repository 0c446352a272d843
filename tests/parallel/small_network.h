#pragma once

#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/parallel/bucket_plan.h"

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

// Buckets so small that every parameter has one of its own.
inline const BucketLimits one_each{1, 1};

// Samples of a rank in a pass.
inline torch::Tensor samples_of(int rank, std::int64_t pass,
                                torch::ScalarType type = torch::kFloat) {
  return samples(100 * rank + 4 * pass, 100 * rank + 4 * pass + 4, type);
}

// Computes by hand the average over ranks of the gradients that `backward_of` leaves in a fresh
// network, undefined where no rank has any.
template <typename Module>
std::vector<torch::Tensor> average_of_ranks(
    int ranks, const Module& network, const std::function<void(Module&, int rank)>& backward_of) {
  std::vector<torch::Tensor> sums(network.parameters().size());
  for (int rank = 0; rank < ranks; ++rank) {
    Module alone;
    const torch::NoGradGuard no_gradient;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      alone.parameters()[i].set_data(network.parameters()[i].detach().clone());
      alone.parameters()[i].set_requires_grad(network.parameters()[i].requires_grad());
    }
    {
      const torch::AutoGradMode with_gradient(true);
      backward_of(alone, rank);
    }
    for (std::size_t i = 0; i < sums.size(); ++i) {
      torch::Tensor gradient = alone.parameters()[i].grad();
      if (!gradient.defined()) continue;
      if (gradient.is_sparse()) gradient = gradient.to_dense();
      sums[i] = sums[i].defined() ? sums[i] + gradient / ranks : gradient / ranks;
    }
  }
  return sums;
}

inline std::vector<torch::Tensor> copies_of(const torch::nn::Module& module) {
  std::vector<torch::Tensor> copies;
  for (const auto& parameter : module.parameters()) copies.push_back(parameter.detach().clone());
  return copies;
}

// Expects equal bits where no tolerance is given.
inline void expect_parameters(const torch::nn::Module& network,
                              const std::vector<torch::Tensor>& expected, double relative = 0,
                              double absolute = 0) {
  const auto parameters = network.parameters();
  ASSERT_EQ(parameters.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(parameters[i].allclose(expected[i], relative, absolute)) << "parameter " << i;
}

// Expected gradients of a step with these passes.
inline std::vector<torch::Tensor> average_of_passes(const SmallNetwork& network, int ranks,
                                                    const std::vector<std::int64_t>& passes) {
  return average_of_ranks<SmallNetwork>(ranks, network, [&](SmallNetwork& alone, int rank) {
    for (const auto pass : passes) mean_loss(alone, samples_of(rank, pass)).backward();
  });
}

inline void expect_gradients(const torch::nn::Module& network,
                             const std::vector<torch::Tensor>& expected, double tolerance = 1e-6) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const torch::Tensor gradient = network.parameters()[i].grad();
    ASSERT_EQ(gradient.defined(), expected[i].defined()) << "parameter " << i;
    if (!gradient.defined()) continue;
    const torch::Tensor dense = gradient.is_sparse() ? gradient.to_dense() : gradient;
    EXPECT_TRUE(dense.allclose(expected[i], tolerance, tolerance)) << "parameter " << i << "\n"
                                                                   << dense << "\n"
                                                                   << expected[i];
  }
}

}  // namespace kolo::testing
