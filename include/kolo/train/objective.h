#pragma once

#include <cstdint>

#include <torch/types.h>

#include "kolo/nn/loss.h"
#include "kolo/train/precision.h"
#include "kolo/train/train_state.h"

namespace kolo {

// What a network is trained for, and what is counted to tell how well it does.
struct Objective {
  LossFunction loss;             // of training
  LossFunction validation_loss;  // unset: as in training
  std::int64_t top = 0;          // counts targets among so many of the largest logits; 0: not
  Precision precision = Precision::fp32;  // of the network; the loss is computed in float32
  bool counts_correct = true;             // false: targets are numbers, there is no right and wrong
};

// The sums over one batch of a loss already computed, and of what is right in it.
[[nodiscard]] MetricSums sums_of(const Objective& objective, const torch::Tensor& loss,
                                 const torch::Tensor& outputs, const torch::Tensor& targets);

}  // namespace kolo
