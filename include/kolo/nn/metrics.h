#pragma once

#include <cstdint>

#include <torch/torch.h>

namespace kolo {

// How many samples of a batch have their largest logit at the target (top-1); of equal logits the
// one that torch's argmax takes counts. logits [N, classes], targets [N], int64. Records nothing
// for backward; waits for the device when the tensors aren't on the CPU.
[[nodiscard]] std::int64_t count_correct(const torch::Tensor& logits, const torch::Tensor& targets);

}  // namespace kolo
