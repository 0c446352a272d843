#pragma once

#include <cstdint>
#include <optional>

#include <torch/torch.h>

#include <kolo/parallel.h>
#include <kolo/tensor_parallel.h>

// A transformer whose layers are cut among the ranks of a group, made of kolo's pieces. Tensors
// are [length, N, features]. With `sequence_parts` a rank has, between pairs of layers, its part of
// the length.

struct TransformerOptions {
  std::int64_t words = 32;
  std::int64_t features = 32;
  std::int64_t heads = 4;
  std::int64_t layers = 2;
  double dropout = 0;
  std::uint64_t dropout_seed = 0;  // another one on each rank: kolo::mesh_seeds(mesh, seed).own
  bool sequence_parts = false;

  std::optional<std::int64_t> sequence_dimension() const {
    return sequence_parts ? std::optional<std::int64_t>(0) : std::nullopt;
  }
};

// Two layers with as few all-reduces as possible: the first is cut by columns, so that each rank
// has all there is of its hidden features, and the second by rows.
struct ParallelMlpImpl : torch::nn::Module {
  ParallelMlpImpl(const kolo::Communicator& group, const TransformerOptions& options)
      : up(register_module("up", kolo::ColumnParallelLinear(
                                     group, options.features, 4 * options.features,
                                     kolo::ColumnParallelOptions{
                                         .sequence_dimension = options.sequence_dimension()}))),
        down(register_module(
            "down",
            kolo::RowParallelLinear(
                group, 4 * options.features, options.features,
                kolo::RowParallelOptions{.sequence_dimension = options.sequence_dimension()}))) {}

  torch::Tensor forward(const torch::Tensor& input) { return down(torch::gelu(up(input))); }

  kolo::ColumnParallelLinear up;
  kolo::RowParallelLinear down;
};
TORCH_MODULE(ParallelMlp);

// Attention, which sees no place after its own, and an MLP, each with a norm before it and a way
// round it.
struct ParallelTransformerBlockImpl : torch::nn::Module {
  ParallelTransformerBlockImpl(const kolo::Communicator& group, const TransformerOptions& options)
      : norm1(register_module("norm1", norm_of(options))),
        attention(register_module(
            "attention",
            kolo::ParallelSelfAttention(group, options.features, options.heads,
                                        kolo::ParallelAttentionOptions{
                                            .is_causal = true,
                                            .dropout = options.dropout,
                                            .dropout_seed = options.dropout_seed,
                                            .sequence_dimension = options.sequence_dimension()}))),
        norm2(register_module("norm2", norm_of(options))),
        mlp(register_module("mlp", ParallelMlp(group, options))) {}

  static kolo::PartLayerNorm norm_of(const TransformerOptions& options) {
    return kolo::PartLayerNorm(torch::nn::LayerNormOptions({options.features}),
                               options.sequence_parts);
  }

  torch::Tensor forward(const torch::Tensor& input) {
    const auto attended = input + attention(norm1(input));
    return attended + mlp(norm2(attended));
  }

  kolo::PartLayerNorm norm1;
  kolo::ParallelSelfAttention attention;
  kolo::PartLayerNorm norm2;
  ParallelMlp mlp;
};
TORCH_MODULE(ParallelTransformerBlock);

// Words [length, N] to this rank's part of the logits of the next word, [length, N, words / ranks].
struct ParallelLanguageModelImpl : torch::nn::Module {
  ParallelLanguageModelImpl(const kolo::Communicator& group, const TransformerOptions& options)
      : words(register_module(
            "words", kolo::VocabularyParallelEmbedding(group, options.words, options.features,
                                                       options.sequence_parts))),
        blocks(register_module("blocks", torch::nn::ModuleList())),
        norm(register_module("norm", ParallelTransformerBlockImpl::norm_of(options))),
        logits(register_module(
            "logits",
            kolo::ColumnParallelLinear(
                group, options.features, options.words,
                kolo::ColumnParallelOptions{.bias = false,
                                            .sequence_dimension = options.sequence_dimension()}))) {
    for (std::int64_t i = 0; i < options.layers; ++i)
      blocks->push_back(ParallelTransformerBlock(group, options));
  }

  torch::Tensor forward(const torch::Tensor& input) {
    auto features = words(input);
    for (const auto& block : *blocks)
      features = block->as<ParallelTransformerBlock>()->forward(features);
    return logits(norm(features));
  }

  kolo::VocabularyParallelEmbedding words;
  torch::nn::ModuleList blocks;
  kolo::PartLayerNorm norm;
  kolo::ColumnParallelLinear logits;
};
TORCH_MODULE(ParallelLanguageModel);
