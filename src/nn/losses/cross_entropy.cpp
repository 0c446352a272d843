#include <fmt/format.h>
#include <torch/nn/functional/loss.h>

#include "kolo/base/error.h"
#include "nn/losses/loss_entry.h"

namespace kolo {

namespace {

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
        losses::shape_of(outputs), losses::shape_of(targets)));
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

}  // namespace

LossFunction make_cross_entropy(double label_smoothing) {
  losses::require_smoothing(label_smoothing);
  return [label_smoothing](const torch::Tensor& outputs, const torch::Tensor& targets) {
    return cross_entropy_of(outputs, targets, label_smoothing);
  };
}

namespace losses {

struct CrossEntropy {
  double label_smoothing = 0;

  [[nodiscard]] LossFunction make() const { return make_cross_entropy(label_smoothing); }
  [[nodiscard]] LossFunction make_for_validation() const { return make_cross_entropy(); }
};

template <typename Field>
void visit(Field& field, CrossEntropy& loss) {
  field("label_smoothing", loss.label_smoothing, fraction);
}

LossEntry cross_entropy() {
  return entry_of<CrossEntropy>("cross_entropy", "of one class among several",
                                {"categorical_crossentropy", "sparse_categorical_crossentropy"});
}

}  // namespace losses
}  // namespace kolo
