#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>

#include "kolo/base/error.h"
#include "kolo/tensor_parallel/group_functions.h"
#include "kolo/tensor_parallel/mesh_gradients.h"
#include "kolo/tensor_parallel/parallel_attention.h"
#include "support/errors.h"
#include "support/rank_test.h"
#include "support/says.h"
#include "tensor_cases.h"

namespace kolo::testing {

namespace {

constexpr std::int64_t length = 8, features = 24, heads = 4;

// torch::nn::MultiheadAttention's names.
std::string name_in_attention(std::string name) {
  if (name == "in_proj_weight") return "in_proj.weight";
  if (name == "in_proj_bias") return "in_proj.bias";
  return name;
}

torch::Tensor no_place_after(torch::ScalarType type) {
  return torch::full({length, length}, -std::numeric_limits<double>::infinity(), type).triu(1);
}

torch::Tensor weighed(const torch::Tensor& output) {
  return (output * waves(output.sizes().vec(), .7, output.scalar_type()) + output.square()).sum();
}

// `mask` goes to both, `own_mask` to ours alone, where is_causal stands for it.
void expect_attention(const Communicator& group, const ParallelAttentionOptions& options,
                      torch::ScalarType type, const torch::Tensor& mask,
                      const torch::Tensor& own_mask, const std::string& what) {
  torch::nn::MultiheadAttention reference(
      torch::nn::MultiheadAttentionOptions(features, heads).bias(options.bias));
  set_numbers(*reference);
  reference->to(type);
  ParallelSelfAttention layer(group, features, heads, options);
  layer->to(type);
  set_whole_parameters(group, *layer, values_of(*reference, name_in_attention));

  const auto input = waves({length, 3, features}, .4, type).requires_grad_();
  const auto expected = std::get<0>(reference->forward(input, input, input, /*key_padding_mask=*/{},
                                                       /*need_weights=*/true, mask));
  weighed(expected).backward();
  const auto own = input.detach().clone().requires_grad_();
  auto output = layer(options.sequence_dimension ? scatter_to_group(group, own, 0) : own, own_mask);
  if (options.sequence_dimension) output = gather_from_group(group, output, 0);
  weighed(output).backward();
  sum_sequence_gradients(group, *layer);
  expect_close(output, expected, tolerance_of(type), what + ", output");
  expect_close(own.grad(), input.grad(), tolerance_of(type), what + ", gradient of the input");
  const auto gradients = whole_gradients(group, *layer);
  for (const auto& item : reference->named_parameters())
    expect_close(gradients[name_in_attention(item.key())], item.value().grad(), tolerance_of(type),
                 what + ", " + item.key());
}

RANK_TEST(ParallelSelfAttention, IsLibTorchsMultiheadAttention) {
  for (const auto type : {torch::kDouble, torch::kFloat}) {
    expect_attention(communicator, {}, type, {}, {}, "all places");
    expect_attention(communicator, {.bias = false}, type, {}, {}, "without bias");
    expect_attention(communicator, {.is_causal = true}, type, no_place_after(type), {}, "causal");
    const auto mask = waves({length, length}, .8, type);
    expect_attention(communicator, {}, type, mask, mask, "with a mask");
    expect_attention(communicator, {.is_causal = true, .sequence_dimension = 0}, type,
                     no_place_after(type), {}, "on parts of a sequence");
  }
}

RANK_TEST(ParallelSelfAttention, ACloneComputesTheSameWithParametersOfItsOwn) {
  ParallelSelfAttention layer(communicator, features, heads);
  set_numbers(*layer);
  const auto clone = std::dynamic_pointer_cast<ParallelSelfAttentionImpl>(layer->clone());
  const auto input = waves({length, 3, features}, .4, torch::kFloat);
  const torch::NoGradGuard no_gradient;
  const auto before = layer(input);
  EXPECT_TRUE(torch::equal(clone->forward(input), before));
  for (auto& parameter : clone->parameters()) parameter.zero_();
  EXPECT_TRUE(torch::equal(layer(input), before));
  EXPECT_EQ(cut_parameters(*clone).size(), cut_parameters(*layer).size());
}

RANK_TEST(ParallelSelfAttention, DropoutIsInTrainingAlone) {
  ParallelSelfAttention layer(
      communicator, features, heads,
      ParallelAttentionOptions{.dropout = .5,
                               .dropout_seed = static_cast<std::uint64_t>(communicator.rank())});
  set_numbers(*layer);
  const auto input = waves({length, 3, features}, .4, torch::kFloat);
  const torch::NoGradGuard no_gradient;
  EXPECT_FALSE(torch::equal(layer(input), layer(input)));
  layer->eval();
  EXPECT_TRUE(torch::equal(layer(input), layer(input)));
}

RANK_TEST(ParallelSelfAttention, WhatItRefuses) {
  EXPECT_TRUE(says(message_of<InputError>(
                       [&] { ParallelSelfAttention layer(communicator, features + 1, heads); }),
                   {"25 features for 4 heads"}));
  if (communicator.size() > 1) {
    EXPECT_TRUE(says(message_of<InputError>([&] {
                       ParallelSelfAttention layer(communicator, features, communicator.size() + 1);
                     }),
                     {"heads can't be cut among " + std::to_string(communicator.size())}));
  }
  ParallelSelfAttention layer(communicator, features, heads);
  EXPECT_TRUE(says(message_of<InputError>([&] {
                     layer(torch::ones({3, features}));
                   }),
                   {"expected [length, N, 24]"}));
}

}  // namespace

}  // namespace kolo::testing
