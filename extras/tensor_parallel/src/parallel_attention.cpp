#include "kolo/tensor_parallel/parallel_attention.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "divisible.h"
#include "kolo/base/error.h"

namespace kolo {

namespace {

// 0 for a place and those before it, negative infinity for those after it.
torch::Tensor causal_mask(std::int64_t length, const torch::TensorOptions& options) {
  constexpr auto lowest = -std::numeric_limits<double>::infinity();
  return torch::full({length, length}, lowest, options).triu(1);
}

}  // namespace

ParallelSelfAttentionImpl::ParallelSelfAttentionImpl(const Communicator& group,
                                                     std::int64_t features, std::int64_t heads,
                                                     const ParallelAttentionOptions& options_)
    : options(options_), group_(group), features_(features), heads_(heads) {
  parallel::require_divisible(group_, "parallel self-attention", "heads", heads);
  if (features < 1 || features % heads != 0) {
    throw InputError(
        fmt::format("parallel: parallel self-attention: {} features for {} heads; expected a "
                    "multiple of the heads",
                    features, heads));
  }
  if (options.sequence_dimension.value_or(0) != 0) {
    throw InputError(
        fmt::format("parallel: parallel self-attention: parts of a sequence along dimension {}; "
                    "inputs are [length, N, features], whose sequence is dimension 0",
                    *options.sequence_dimension));
  }
  reset();
}

void ParallelSelfAttentionImpl::reset() {
  in_proj = register_module(
      "in_proj", ColumnParallelLinear(
                     group_, features_, 3 * features_,
                     ColumnParallelOptions{.bias = options.bias,
                                           .blocks = 3,
                                           .sequence_dimension = options.sequence_dimension}));
  out_proj = register_module(
      "out_proj",
      RowParallelLinear(group_, features_, features_,
                        RowParallelOptions{.bias = options.bias,
                                           .sequence_dimension = options.sequence_dimension}));
  dropout = register_module("dropout", PartDropout(options.dropout, options.dropout_seed));
}

void ParallelSelfAttentionImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kolo::ParallelSelfAttention(features={}, heads={}, causal={}, ranks={})",
                        features_, heads_, options.is_causal, group_.size());
}

torch::Tensor ParallelSelfAttentionImpl::forward(const torch::Tensor& input,
                                                 const torch::Tensor& mask) {
  if (input.dim() != 3) {
    throw InputError(
        fmt::format("parallel: parallel self-attention: an input of shape [{}], expected [length, "
                    "N, {}]",
                    c10::Join(", ", input.sizes()), features_));
  }
  const auto projected = in_proj(input);  // [length, N, 3 x features / ranks]
  const auto length = projected.size(0), samples = projected.size(1);
  const auto heads = heads_ / group_.size(), width = features_ / heads_;
  // [N x heads, length, width] each
  const auto parts = projected.chunk(3, -1);
  const auto by_head = [&](const torch::Tensor& part) {
    return part.reshape({length, samples * heads, width}).transpose(0, 1);
  };
  const auto queries = by_head(parts[0]) / std::sqrt(static_cast<double>(width));
  auto scores = torch::bmm(queries, by_head(parts[1]).transpose(1, 2));
  if (options.is_causal) scores = scores + causal_mask(length, scores.options());
  if (mask.defined()) scores = scores + mask;
  const auto weights = dropout(torch::softmax(scores, -1));
  const auto values = torch::bmm(weights, by_head(parts[2]));
  return out_proj(values.transpose(0, 1).reshape({length, samples, heads * width}));
}

}  // namespace kolo
