#pragma once

#include <cstddef>
#include <vector>

#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/comm/communicator.h"

namespace kolo {

// Loss that a closure has returned, averaged over the ranks, so that all decide alike. Collective.
// Error where it is not one value.
inline torch::Tensor average_loss(const Communicator& communicator, const torch::Tensor& loss) {
  if (!loss.defined() || loss.numel() != 1) {
    throw Error(
        "parallel: an optimizer's closure returned no loss; it must call backward() and return the "
        "loss, a tensor of one value, on every rank");
  }
  return torch::full_like(loss.detach(),
                          all_reduce_value(communicator, loss.item<double>(), ReduceOp::average));
}

// Gives the optimizer's groups, from a place on, the options of these to the letter. Newer versions
// of LibTorch (2.15; 2.6 not) take an option of a new group that is as its kind has it by default
// for unset and replace it by the optimizer's, and all options of kinds that they don't know.
inline void take_options(torch::optim::Optimizer& optimizer,
                         const std::vector<torch::optim::OptimizerParamGroup>& groups,
                         std::size_t first = 0) {
  for (std::size_t i = first; i < groups.size(); ++i)
    optimizer.param_groups()[i].set_options(groups[i].options().clone());
}

}  // namespace kolo
