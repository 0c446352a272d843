#pragma once

#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/comm/communicator.h"

namespace kolo {

// What a closure has returned, averaged over the ranks, so that all decide alike. Collective. Error
// where it is not one value.
inline torch::Tensor average_loss(const Communicator& communicator, const torch::Tensor& loss) {
  if (!loss.defined() || loss.numel() != 1) {
    throw Error(
        "parallel: an optimizer's closure returned no loss; it must call backward() and return the "
        "loss, a tensor of one value, on every rank");
  }
  return torch::full_like(loss.detach(),
                          all_reduce_value(communicator, loss.item<double>(), ReduceOp::average));
}

}  // namespace kolo
