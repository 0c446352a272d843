#pragma once

#include <cstdint>
#include <optional>
#include <ostream>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/tensor_parallel/parallel_linear.h"
#include "kolo/tensor_parallel/part_dropout.h"

namespace kolo {

struct ParallelAttentionOptions {
  bool bias = true;
  // Whether a place sees only itself and those before it.
  bool is_causal = false;
  // Dropout of the attention's weights, in training, with masks of this rank's own (PartDropout).
  double dropout = 0;
  std::uint64_t dropout_seed = 0;
  // 0: inputs and outputs are this rank's part of the sequence, [length / ranks, N, features]; the
  // layers of kolo/tensor_parallel/parallel_linear.h say more.
  std::optional<std::int64_t> sequence_dimension = std::nullopt;
};

// Self-attention whose heads are cut among the ranks of a group: each rank has heads / ranks heads
// with their queries, keys and values, and its part of the sum over heads. What
// torch::nn::MultiheadAttention computes from three times the same input, of the same parameters:
// in_proj.weight and in_proj.bias are its in_proj_weight and in_proj_bias, cut in three blocks;
// out_proj is its. They begin as torch::nn::Linear(features, 3 * features) and
// torch::nn::Linear(features, features) would.
//
// Input [length, N, features], replicated; output alike. One all-reduce in forward and one in
// backward. InputError where the heads don't divide the features, or the ranks the heads.
// (Shoeybi et al., arXiv:1909.08053, section 3.)
class ParallelSelfAttentionImpl : public torch::nn::Cloneable<ParallelSelfAttentionImpl> {
 public:
  ParallelSelfAttentionImpl(const Communicator& group, std::int64_t features, std::int64_t heads,
                            const ParallelAttentionOptions& options = {});
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  // `mask`, if there is one, is added to what softmax is taken of: [length, length] of the input's
  // dtype, 0 or negative infinity for instance.
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& mask = {});

  ParallelAttentionOptions options;
  ColumnParallelLinear in_proj{nullptr};
  RowParallelLinear out_proj{nullptr};
  PartDropout dropout{nullptr};

 private:
  Communicator group_;
  std::int64_t features_, heads_;
};
TORCH_MODULE(ParallelSelfAttention);

}  // namespace kolo
