#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kolo/comm/communicator.h"

namespace at {
class Tensor;
}

// Small objects that are not tensors (bytes, JSON, text), and single numbers. All of these block.
namespace kolo {

// Root's bytes on every rank; what the others pass is ignored. Two collectives: the length, then
// the bytes.
[[nodiscard]] std::string broadcast_bytes(const Communicator& communicator, std::string_view bytes,
                                          int root = 0, CallOptions call = {});

// Every rank's bytes, by rank; the lengths may differ. Two collectives: the lengths, then the
// bytes.
[[nodiscard]] std::vector<std::string> all_gather_bytes(const Communicator& communicator,
                                                        std::string_view bytes,
                                                        CallOptions call = {});

// The mean over the ranks of a metric, each rank's weighed by `weight` (its number of samples, for
// example): sum(weight * value) / sum(weight). A rank of weight 0 doesn't count, whatever its
// value; NaN when all have weight 0. InputError for a weight below 0 or not finite, on every rank.
[[nodiscard]] double average(const Communicator& communicator, double value, double weight = 1,
                             CallOptions call = {});

// The same for every element of a tensor of a floating dtype, in a new tensor; computed in
// float64. The same shape on every rank.
[[nodiscard]] at::Tensor average(const Communicator& communicator, const at::Tensor& values,
                                 double weight = 1, CallOptions call = {});

// The factor of this rank's mean loss with which the average of the ranks' gradients is that of the
// mean over all of them, each weighed by `weight` (its number of samples or tokens): weight * ranks
// / sum of weights. 0 when all have weight 0. InputError for a weight below 0 or not finite, on
// every rank. One all-reduce of a number.
[[nodiscard]] double loss_factor(const Communicator& communicator, double weight,
                                 CallOptions call = {});

}  // namespace kolo
