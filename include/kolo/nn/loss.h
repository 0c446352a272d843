#pragma once

#include <functional>
#include <string>

#include <torch/torch.h>

namespace kolo {

enum class LossKind { cross_entropy };

// The loss of that name, "cross_entropy"; InputError for any other.
[[nodiscard]] LossKind loss_named(const std::string& name);

// The mean loss over a batch, a scalar to call backward() on, from a network's outputs and the
// targets; not a number for an empty batch.
using LossFunction =
    std::function<torch::Tensor(const torch::Tensor& outputs, const torch::Tensor& targets)>;

// cross_entropy: outputs are logits [N, classes], targets the classes' indices [N], int64; the mean
// of -log(softmax(logits)[target]).
[[nodiscard]] LossFunction make_loss(LossKind kind);

}  // namespace kolo
