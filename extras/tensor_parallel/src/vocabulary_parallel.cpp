#include "kolo/tensor_parallel/vocabulary_parallel.h"

#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/nn/modules/embedding.h>

#include "divisible.h"
#include "kolo/base/checked.h"
#include "kolo/base/error.h"
#include "kolo/parallel/tensor_collectives.h"
#include "kolo/tensor_parallel/group_functions.h"

namespace kolo {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Places of words of the whole vocabulary in this rank's part.
struct OwnWords {
  torch::Tensor index;   // in the part; 0 for words of others
  torch::Tensor is_own;  // bool
};

OwnWords own_words(const Communicator& group, const torch::Tensor& words, std::int64_t part) {
  const auto index = words - group.rank() * part;
  const auto is_own = index.ge(0).logical_and_(index.lt(part));
  return {index.masked_fill(is_own.logical_not(), 0), is_own};
}

// Only where nobody has to wait for a device.
void require_words(std::string_view what, const torch::Tensor& words, std::int64_t vocabulary) {
  if (words.scalar_type() != torch::kLong) {
    throw InputError(fmt::format("parallel: {}: words of {}, expected int64", what,
                                 torch::toString(words.scalar_type())));
  }
  if (!words.device().is_cpu() || words.numel() == 0) return;
  const auto lowest = words.min().item<std::int64_t>(), highest = words.max().item<std::int64_t>();
  if (lowest >= 0 && highest < vocabulary) return;
  throw InputError(
      fmt::format("parallel: {}: the word {} is outside of the vocabulary, expected 0 to {}", what,
                  lowest < 0 ? lowest : highest, vocabulary - 1));
}

// Losses [N] of logits [N, part] and targets [N].
class VocabularyLosses : public torch::autograd::Function<VocabularyLosses> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& logits,
                               const torch::Tensor& targets, const Communicator& group) {
    const auto [index, is_own] = own_words(group, targets, logits.size(1));
    const auto highest = logits.amax(1);
    group.all_reduce(buffer_of(highest), ReduceOp::max, {.name = "vocabulary maximum"});
    const auto shifted = logits - highest.unsqueeze(1);
    const auto of_target = shifted.gather(1, index.unsqueeze(1)).squeeze(1);
    auto softmax = shifted.exp_();
    const auto sums =
        torch::stack({softmax.sum(1), of_target.masked_fill(is_own.logical_not(), 0)});
    group.all_reduce(buffer_of(sums), ReduceOp::sum, {.name = "vocabulary sums"});
    softmax.div_(sums[0].unsqueeze(1));
    context->save_for_backward({softmax, index, is_own});
    return sums[0].log() - sums[1];
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled()) {
      throw Error(
          "parallel: vocabulary cross-entropy has no second derivatives; drop create_graph");
    }
    const auto saved = context->get_saved_variables();
    const auto &softmax = saved[0], &index = saved[1], &is_own = saved[2];
    const auto slope = gradients[0].unsqueeze(1);
    // Minus the slope at the target's place, where this rank has it.
    const auto at_target = slope * is_own.unsqueeze(1);
    auto gradient = softmax * slope;
    gradient.scatter_add_(1, index.unsqueeze(1), at_target.neg());
    return {gradient, {}, {}};
  }
};

torch::Tensor reduced(const torch::Tensor& losses, const torch::Tensor& counts,
                      LossReduction reduction) {
  switch (reduction) {
    case LossReduction::mean:
      return losses.sum() / counts.sum();
    case LossReduction::sum:
      return losses.sum();
    case LossReduction::none:
      break;
  }
  return losses;
}

}  // namespace

torch::Tensor vocabulary_cross_entropy(const Communicator& group, const torch::Tensor& logits,
                                       const torch::Tensor& targets,
                                       const VocabularyLossOptions& options) {
  constexpr std::string_view name = "vocabulary cross-entropy";
  if (logits.dim() != targets.dim() + 1 || !torch::isFloatingType(logits.scalar_type()) ||
      logits.sizes().slice(0, static_cast<std::size_t>(targets.dim())) != targets.sizes() ||
      logits.size(-1) == 0) {
    throw InputError(fmt::format(
        "parallel: {}: logits of {} with shape [{}] for targets of shape [{}]; expected a floating "
        "dtype and the targets' shape with this rank's part of the vocabulary after it",
        name, torch::toString(logits.scalar_type()), c10::Join(", ", logits.sizes()),
        c10::Join(", ", targets.sizes())));
  }
  const auto part = logits.size(-1);
  const auto vocabulary = checked_multiply<std::int64_t>(part, group.size());
  const auto counts = targets.ne(options.ignore_index);
  const auto words = targets.masked_fill(counts.logical_not(), 0);
  require_words(name, words, vocabulary);
  const auto type = logits.scalar_type();
  const auto wide = type == torch::kHalf || type == torch::kBFloat16 ? torch::kFloat : type;
  auto losses =
      VocabularyLosses::apply(logits.to(wide).reshape({-1, part}), words.reshape({-1}), group)
          .view(targets.sizes())
          .masked_fill(counts.logical_not(), 0);
  if (!words.device().is_cpu()) {
    const auto is_outside = words.lt(0).logical_or_(words.ge(vocabulary));
    losses = losses.masked_fill(is_outside, std::numeric_limits<double>::quiet_NaN());
  }
  return reduced(losses, counts, options.reduction).to(type);
}

VocabularyParallelEmbeddingImpl::VocabularyParallelEmbeddingImpl(Communicator group,
                                                                 std::int64_t words,
                                                                 std::int64_t features,
                                                                 bool sequence_parts)
    : group_(std::move(group)),
      words_(words),
      features_(features),
      sequence_parts_(sequence_parts) {
  parallel::require_divisible(group_, "vocabulary-parallel embedding", "words", words_);
  reset();
}

void VocabularyParallelEmbeddingImpl::reset() {
  const torch::nn::Embedding whole(words_, features_);
  weight = register_parameter("weight", part_of_parameter(group_, whole->weight, {0}));
}

void VocabularyParallelEmbeddingImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("kolo::VocabularyParallelEmbedding(words={}, features={}, ranks={})",
                        words_, features_, group_.size());
}

torch::Tensor VocabularyParallelEmbeddingImpl::forward(const torch::Tensor& input) {
  require_words("vocabulary-parallel embedding", input, words_);
  const auto [index, is_own] = own_words(group_, input, words_ / group_.size());
  const auto features =
      torch::embedding(weight, index).masked_fill(is_own.logical_not().unsqueeze(-1), 0);
  return sequence_parts_ ? reduce_scatter_from_group(group_, features, 0)
                         : reduce_from_group(group_, features);
}

std::vector<CutParameter> VocabularyParallelEmbeddingImpl::cut_parameters() const {
  return {{"weight", {0}}};
}

}  // namespace kolo
