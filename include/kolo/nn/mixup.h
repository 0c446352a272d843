#pragma once

#include <torch/types.h>

#include "kolo/base/random.h"
#include "kolo/nn/loss.h"

// Mixup: training on convex combinations of pairs of samples (Zhang et al., arXiv:1710.09412).
namespace kolo {

// A batch whose samples are mixed in pairs of it: `share` of a sample itself and 1 - share of its
// partner.
struct MixedBatch {
  torch::Tensor inputs;           // share * inputs + (1 - share) * partners' inputs
  torch::Tensor targets;          // the samples' own
  torch::Tensor partner_targets;  // the partners'
  double share = 1;               // from 0 to 1; the paper's lambda
};

// Mixes a batch: one share for all of it, from the distribution Beta(alpha, alpha), and a random
// permutation for the partners, both from `random` alone: the same batch for the same (seed,
// stream, index), say the run's seed, the rank and the step. inputs [N, ...], floating; targets [N,
// ...]. InputError unless alpha is above 0 and finite. Costs a copy of the batch and one pass.
[[nodiscard]] MixedBatch mix(const torch::Tensor& inputs, const torch::Tensor& targets,
                             double alpha, CounterRandom& random);

// share * loss(outputs, targets) + (1 - share) * loss(outputs, partner_targets)
[[nodiscard]] torch::Tensor mixed_loss(const LossFunction& loss, const torch::Tensor& outputs,
                                       const MixedBatch& batch);

}  // namespace kolo
