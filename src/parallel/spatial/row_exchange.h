#pragma once

#include <cstdint>

#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/layout/spatial_plan.h"

namespace kolo {

// What one rank does with the rows of one dimension.
struct RowExchange {
  std::int64_t dimension = 2;
  int tag = 0;           // of messages that travel up, in the words of extend; tag + 1 of others
  RowRange owned;        // rows before extend, after fold
  RowRange extended;     // rows after extend, before fold
  RowMessages messages;  // peers are ranks of the communicator

  [[nodiscard]] bool does_something() const {
    return owned != extended || !messages.sends.empty() || !messages.receives.empty();
  }
};

// New tensors without autograd, in the memory format of the first. Rows travel with the channels
// last, whatever the format: it may differ between ranks, and rows of the slowest dimension are one
// piece of memory in the format that convolutions on processors like best.
[[nodiscard]] torch::Tensor extended_rows(const Communicator& communicator,
                                          const torch::Tensor& tensor, const RowExchange& exchange);
[[nodiscard]] torch::Tensor folded_rows(const Communicator& communicator,
                                        const torch::Tensor& tensor, const RowExchange& exchange);

}  // namespace kolo
