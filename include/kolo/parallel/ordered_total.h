#pragma once

#include <torch/types.h>

#include "kolo/comm/communicator.h"

namespace kolo {

// The sum over virtual ranks of a few numbers each, in the order of kolo/layout/virtual_ranks.h:
// the same bits on any number of ranks, and on all of them. `mine`: [this rank's parts, m], float32
// or float64; returns [m]. Collective, and costs an all-gather.
[[nodiscard]] torch::Tensor ordered_total(const Communicator& communicator, int virtual_ranks,
                                          const torch::Tensor& mine);

}  // namespace kolo
