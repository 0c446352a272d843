#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/tensor_parallel/parameter_parts.h"

// torch::nn::Linear, cut among the ranks of a group, such as DeviceMesh::axis(MeshAxis::tensor): by
// columns, then by rows, so that two layers and what is done to each value between them cost one
// all-reduce each way. (Shoeybi et al., arXiv:1909.08053, section 3.)
//
// Losses are as for group functions (kolo/tensor_parallel/group_functions.h): all ranks compute one
// replicated loss, and gradients of replicated values are replicated. Parameters are named as
// torch::nn::Linear's, and together those of a torch::nn::Linear that was made in their place: each
// rank draws the whole, from LibTorch's generator, and keeps its part, so ranks of a group need the
// same seed when they make layers; until then a rank has room for the whole weight.
//
// On parts of a sequence (`sequence_dimension`) each rank has its part of the values between such
// pairs of layers, along that dimension of the input and the output: an all-gather comes before the
// first layer and a reduce-scatter after the second, which together move as much as the all-reduce,
// and what is between pairs (norms, dropout, what is kept of them for backward) is computed and
// kept once instead of on every rank. (Korthikanti et al., arXiv:2205.05198, section 4.2.2; the
// gathered input is kept for the weight's gradient, not gathered again.)
//
// InputError where the ranks don't divide the features that are cut, or an input has others.
// Collective calls in forward and backward, as the group functions make them; making a layer is
// local.
namespace kolo {

struct ColumnParallelOptions {
  bool bias = true;
  // The output features are so many blocks one after another, each of which is cut by itself.
  std::int64_t blocks = 1;
  // Whether every rank gets all output features; with one block.
  bool gather_output = false;
  // Inputs are this rank's part along this dimension, not replicated.
  std::optional<std::int64_t> sequence_dimension = std::nullopt;
};

// Input [..., in], replicated; output [..., out / ranks], the features of this rank. Backward is
// one all-reduce of the input's gradient. weight: [out / ranks, in], bias: [out / ranks].
class ColumnParallelLinearImpl : public torch::nn::Cloneable<ColumnParallelLinearImpl>,
                                 public PartsOfParameters {
 public:
  ColumnParallelLinearImpl(Communicator group, std::int64_t in_features, std::int64_t out_features,
                           const ColumnParallelOptions& options = {});
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  torch::Tensor forward(const torch::Tensor& input);

  [[nodiscard]] std::vector<CutParameter> cut_parameters() const override;

  ColumnParallelOptions options;
  torch::Tensor weight, bias;  // bias is undefined where there is none

 private:
  Communicator group_;
  std::int64_t in_, out_;
};
TORCH_MODULE(ColumnParallelLinear);

struct RowParallelOptions {
  bool bias = true;
  // Whether inputs have all features, replicated, of which each rank takes its own.
  bool scatter_input = false;
  // Outputs are this rank's part along this dimension, not replicated.
  std::optional<std::int64_t> sequence_dimension = std::nullopt;
};

// Input [..., in / ranks], the features of this rank; output [..., out], replicated: one all-reduce
// in forward, of the ranks' products, to which the bias is added once. weight: [out, in / ranks],
// bias: [out], replicated.
class RowParallelLinearImpl : public torch::nn::Cloneable<RowParallelLinearImpl>,
                              public PartsOfParameters {
 public:
  RowParallelLinearImpl(Communicator group, std::int64_t in_features, std::int64_t out_features,
                        const RowParallelOptions& options = {});
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  torch::Tensor forward(const torch::Tensor& input);

  [[nodiscard]] std::vector<CutParameter> cut_parameters() const override;
  [[nodiscard]] std::vector<std::string> sequence_parameters() const override;

  RowParallelOptions options;
  torch::Tensor weight, bias;  // bias is undefined where there is none

 private:
  Communicator group_;
  std::int64_t in_, out_;
};
TORCH_MODULE(RowParallelLinear);

}  // namespace kolo
