#pragma once

#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "kolo/parallel/gradient_reducer.h"

namespace kolo::testing {

// The same parameters everywhere, without LibTorch's generator, which ranks that are threads share.
inline void set_to_sines(torch::nn::Module& module, double frequency, double scale = 1) {
  const torch::NoGradGuard no_gradient;
  for (auto& parameter : module.parameters()) {
    const auto values = torch::sin(torch::arange(parameter.numel()) * frequency) * scale;
    parameter.copy_(values.view(parameter.sizes()));
  }
}

// A network with parameters of several sizes and a buffer; the same weights for the same seed.
struct SmallNetwork : torch::nn::Module {
  explicit SmallNetwork(std::int64_t hidden = 7, int seed = 1)
      : first(5, hidden), second(hidden, 3) {
    register_module("first", first);
    register_module("second", second);
    calls = register_buffer("calls", torch::zeros({2}));
    set_to_sines(*this, seed + .3, .5);
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

inline void copy_parameters(torch::nn::Module& to, const torch::nn::Module& from) {
  const torch::NoGradGuard no_gradient;
  for (std::size_t i = 0; i < from.parameters().size(); ++i)
    to.parameters()[i].copy_(from.parameters()[i]);
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

// Makes a step of one pass, and looks at its gradients.
inline void expect_step(const Communicator& communicator, SmallNetwork& network,
                        GradientReducer& reducer, std::int64_t pass, double tolerance = 1e-6) {
  reducer.clear_gradients();
  mean_loss(network, samples_of(communicator.rank(), pass)).backward();
  reducer.finish();
  expect_gradients(network, average_of_passes(network, communicator.size(), {pass}), tolerance);
}

// A network with the reducer that averages its gradients.
struct AveragedNetwork : SmallNetwork {
  explicit AveragedNetwork(const Communicator& ranks,
                           const ReducerOptions& options = {.buckets = one_each})
      : communicator(ranks), reducer(ranks, *this, options) {}

  void backward(std::int64_t pass) {
    mean_loss(*this, samples_of(communicator.rank(), pass)).backward();
  }
  // Ends a step of these passes, and looks at its gradients.
  void expect_averages(const std::vector<std::int64_t>& passes, double tolerance = 1e-6) {
    reducer.finish();
    expect_gradients(*this, average_of_passes(*this, communicator.size(), passes), tolerance);
  }
  void expect_step(std::int64_t pass, double tolerance = 1e-6) {
    testing::expect_step(communicator, *this, reducer, pass, tolerance);
  }

  Communicator communicator;
  GradientReducer reducer;
};

// A table whose gradients are sparse, if so wanted, and a layer behind it.
struct Words : torch::nn::Module {
  Words() : Words(true) {}
  explicit Words(bool is_sparse)
      : table(torch::nn::EmbeddingOptions(20, 4).sparse(is_sparse)), last(4, 2) {
    register_module("table", table);
    register_module("last", last);
    set_to_sines(*this, 1);
  }
  // Rank r looks up r + 1 words, some of them twice and some that others look up too.
  torch::Tensor loss(int rank, std::int64_t step) {
    const auto words = (torch::arange(2 * (rank + 1)) * 3 + step).remainder(7 + rank);
    return last(table(words)).square().sum(1).mean();
  }
  torch::nn::Embedding table;
  torch::nn::Linear last;
};

}  // namespace kolo::testing
