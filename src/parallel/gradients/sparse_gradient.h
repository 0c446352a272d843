#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/comm/communicator.h"

namespace kolo {

// A parameter outside the arena whose gradient is sparse, and what becomes of it in a step.
struct SparseGradient {
  struct Result {
    torch::Tensor gradient;
    std::int64_t bytes = 0;  // of indices and values that this rank has sent
  };

  std::string name;
  torch::Tensor parameter;
  std::shared_ptr<Result> result = nullptr;
};

// The average over the ranks of a gradient of `shape`, sparse and coalesced: their rows one after
// another, where each lists a row once. An undefined gradient counts as zero, a dense one is made
// sparse by rows. Collective: the number of rows, then indices and values.
[[nodiscard]] SparseGradient::Result average_sparse(const Communicator& communicator,
                                                    torch::Tensor gradient,
                                                    const torch::Tensor& parameter);

// Names of the parameters of Embedding and EmbeddingBag modules with sparse(true).
[[nodiscard]] std::vector<std::string> sparse_embeddings(const torch::nn::Module& module);

}  // namespace kolo
