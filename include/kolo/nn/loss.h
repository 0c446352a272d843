#pragma once

#include <functional>
#include <string>

#include <torch/types.h>

#include "kolo/base/enum_names.h"

namespace kolo {

enum class LossKind { cross_entropy, binary_cross_entropy, l1 };

// With Keras's names for them.
constexpr auto enum_names(LossKind) {
  return std::to_array<EnumName<LossKind>>(
      {{LossKind::cross_entropy, "cross_entropy"},
       {LossKind::cross_entropy, "categorical_crossentropy"},
       {LossKind::cross_entropy, "sparse_categorical_crossentropy"},
       {LossKind::binary_cross_entropy, "binary_crossentropy"},
       {LossKind::binary_cross_entropy, "binary_cross_entropy"},
       {LossKind::l1, "l1"},
       {LossKind::l1, "mean_absolute_error"}});
}

struct LossOptions {
  LossKind kind = LossKind::cross_entropy;
  // From 0 to below 1: the share of a target that goes to all classes alike (Szegedy et al.,
  // arXiv:1512.00567), as Keras has it.
  double label_smoothing = 0;
  // l1 alone, 0 or more: the weight of the error in the density itself (see make_loss).
  double lambda_rho = 0;
};

// Whether it is a classifier's, whose outputs can be right or wrong.
[[nodiscard]] bool is_of_classes(LossKind kind);

// The loss of that name: "cross_entropy", also called "categorical_crossentropy" and
// "sparse_categorical_crossentropy", "binary_cross_entropy", also called "binary_crossentropy", or
// "l1", also called "mean_absolute_error". InputError for any other.
[[nodiscard]] LossKind loss_named(const std::string& name);

// The mean loss over a batch, a scalar to call backward() on, from a network's outputs and the
// targets; not a number for an empty batch.
using LossFunction =
    std::function<torch::Tensor(const torch::Tensor& outputs, const torch::Tensor& targets)>;

// cross_entropy: outputs are logits [N, classes]; targets the classes' indices [N], int64, or the
// classes' probabilities [N, classes], floating. The mean of -sum(target log(softmax(logits))).
//
// binary_cross_entropy: outputs are one logit a sample, [N, 1] or [N]; targets 0, 1 or a
// probability between them, integer or floating, [N] or [N, 1]. The mean of -target log(p) -
// (1 - target) log(1 - p), p = sigmoid(logit).
//
// l1: outputs and targets of one shape, floating. The mean of |outputs - targets|. With a
// lambda_rho above 0, which takes fields [N, channels, lengths...] whose first channel is ln(rho) /
// 14: plus lambda_rho times the mean of |exp(14 outputs[:, 0]) - exp(14 targets[:, 0])|, as NERSC's
// tutorial for the cosmology U-Net has it.
//
// InputError for a smoothing or weight out of range, or with a loss that has none. The function
// made throws InputError for outputs or targets of another shape than these.
[[nodiscard]] LossFunction make_loss(const LossOptions& options);
[[nodiscard]] LossFunction make_loss(LossKind kind);

}  // namespace kolo
