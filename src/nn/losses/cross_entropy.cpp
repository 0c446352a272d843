#include <fmt/format.h>
#include <torch/nn/functional/loss.h>

#include "kolo/base/error.h"
#include "nn/losses/loss_entry.h"
#include "nn/tensor_text.h"

namespace kolo {

namespace {

void require_smoothing(double label_smoothing) {
  if (label_smoothing >= 0 && label_smoothing < 1) return;
  throw InputError(fmt::format("loss: label smoothing is {}, expected a number from 0 to below 1",
                               label_smoothing));
}

torch::Tensor cross_entropy_of(const torch::Tensor& outputs, const torch::Tensor& targets,
                               double smoothing) {
  const bool logits = outputs.dim() == 2 && outputs.is_floating_point();
  const bool indices = logits && targets.dim() == 1 && targets.size(0) == outputs.size(0) &&
                       targets.scalar_type() == torch::kInt64;
  const bool probabilities =
      logits && targets.is_floating_point() && targets.sizes() == outputs.sizes();
  if (!indices && !probabilities) {
    throw InputError(fmt::format(
        "loss: cross_entropy of outputs {} and targets {}, expected logits [N, classes] and the "
        "classes' indices [N] of Long, or probabilities [N, classes]",
        shape_of(outputs), shape_of(targets)));
  }
  if (outputs.size(1) == 1) {
    throw InputError(
        "loss: cross_entropy of a network with one output is 0 whatever it puts out; use "
        "binary_cross_entropy, or as many outputs as there are classes");
  }
  return torch::nn::functional::cross_entropy(
      outputs, targets,
      torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(smoothing));
}

torch::Tensor binary_cross_entropy_of(const torch::Tensor& outputs, const torch::Tensor& targets,
                                      double smoothing) {
  const auto is_column = [](const torch::Tensor& tensor) {
    return tensor.dim() == 1 || (tensor.dim() == 2 && tensor.size(1) == 1);
  };
  if (!is_column(outputs) || !is_column(targets) || outputs.numel() != targets.numel()) {
    throw InputError(fmt::format(
        "loss: binary_cross_entropy of outputs {} and targets {}, expected one logit "
        "and one target per sample, [N] or [N, 1]; for a network of several outputs use "
        "cross_entropy",
        shape_of(outputs), shape_of(targets)));
  }
  torch::Tensor soft = targets.to(outputs.scalar_type()).reshape(outputs.sizes());
  if (smoothing > 0) soft = soft * (1 - smoothing) + smoothing / 2;
  return torch::nn::functional::binary_cross_entropy_with_logits(outputs, soft);
}

}  // namespace

LossFunction make_cross_entropy(double label_smoothing) {
  require_smoothing(label_smoothing);
  return [label_smoothing](const torch::Tensor& outputs, const torch::Tensor& targets) {
    return cross_entropy_of(outputs, targets, label_smoothing);
  };
}

LossFunction make_binary_cross_entropy(double label_smoothing) {
  require_smoothing(label_smoothing);
  return [label_smoothing](const torch::Tensor& outputs, const torch::Tensor& targets) {
    return binary_cross_entropy_of(outputs, targets, label_smoothing);
  };
}

namespace losses {

// Smoothed in training alone, so that runs compare.
template <LossFunction (*make_loss)(double label_smoothing)>
struct Smoothed {
  double label_smoothing = 0;

  [[nodiscard]] LossFunction make() const { return make_loss(label_smoothing); }
  [[nodiscard]] LossFunction make_for_validation() const { return make_loss(0); }
};

template <typename Field, auto make_loss>
void visit(Field& field, Smoothed<make_loss>& loss) {
  field("label_smoothing", loss.label_smoothing, fraction);
}

LossEntry cross_entropy() {
  return entry_of<Smoothed<make_cross_entropy>>(
      "cross_entropy", "of one class among several",
      {"categorical_crossentropy", "sparse_categorical_crossentropy", "nll", "nll_loss"});
}

LossEntry binary_crossentropy() {
  auto entry = entry_of<Smoothed<make_binary_cross_entropy>>(
      "binary_crossentropy", "of one output, for two classes",
      {"binary_cross_entropy", "bce", "bce_with_logits"});
  entry.is_binary = true;
  return entry;
}

}  // namespace losses
}  // namespace kolo
