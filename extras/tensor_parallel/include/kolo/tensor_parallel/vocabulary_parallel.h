#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "kolo/base/enum_names.h"
#include "kolo/comm/communicator.h"
#include "kolo/tensor_parallel/parameter_parts.h"

// The two ends of a network of words, cut along the vocabulary among the ranks of a group: rank r
// has the r-th of as many parts of the same length. One replicated loss is computed, as in
// kolo/tensor_parallel/group_functions.h. (Shoeybi et al., arXiv:1909.08053, section 3.)
namespace kolo {

enum class LossReduction { mean, sum, none };

constexpr auto enum_names(LossReduction) {
  return std::to_array<EnumName<LossReduction>>(
      {{LossReduction::mean, "mean"}, {LossReduction::sum, "sum"}, {LossReduction::none, "none"}});
}

struct VocabularyLossOptions {
  // Reduction over the targets that are not ignored; not a number where there are none, as in
  // torch.
  LossReduction reduction = LossReduction::mean;
  // Targets of this value take no part.
  std::int64_t ignore_index = -100;
};

// torch::nn::functional::cross_entropy of logits whose vocabulary is cut: logits [..., words /
// ranks] of this rank, floating, such as those of a ColumnParallelLinear; targets [...], int64,
// words of the whole vocabulary, replicated. Returns the replicated loss of the logits' dtype, of
// the targets' shape where nothing is reduced. Numerically stable; 16-bit types are computed in
// float32.
//
// Forward is two all-reduces, of a number per target (the maximum) and of two (the sum of the
// exponentials and the target's logit, together); backward is local. The logits of the whole
// vocabulary are on no rank; this rank's part of their softmax is kept for backward. No second
// derivatives (Error). InputError for shapes that don't fit, and for a target outside the
// vocabulary; on a device nobody waits to look at targets, and such a loss is not a number.
[[nodiscard]] torch::Tensor vocabulary_cross_entropy(const Communicator& group,
                                                     const torch::Tensor& logits,
                                                     const torch::Tensor& targets,
                                                     const VocabularyLossOptions& options = {});

// torch::nn::Embedding whose words are cut among the ranks. Input: int64 of any shape, words of the
// whole vocabulary, replicated; output [..., features], replicated: one all-reduce in forward, none
// in backward. With `sequence_parts`, for inputs [length, ...], output is this rank's part along
// the first dimension: a reduce-scatter in forward, an all-gather in backward. weight: [words /
// ranks, features], the ranks' together drawn as torch::nn::Embedding's. InputError where the ranks
// don't divide the words (add some that are never used), and, in the host's memory, for a word
// outside the vocabulary.
class VocabularyParallelEmbeddingImpl
    : public torch::nn::Cloneable<VocabularyParallelEmbeddingImpl>,
      public PartsOfParameters {
 public:
  VocabularyParallelEmbeddingImpl(Communicator group, std::int64_t words, std::int64_t features,
                                  bool sequence_parts = false);
  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  torch::Tensor forward(const torch::Tensor& input);

  [[nodiscard]] std::vector<CutParameter> cut_parameters() const override;

  torch::Tensor weight;

 private:
  Communicator group_;
  std::int64_t words_, features_;
  bool sequence_parts_;
};
TORCH_MODULE(VocabularyParallelEmbedding);

}  // namespace kolo
