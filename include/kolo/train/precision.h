#pragma once

#include <string>

#include "kolo/nn/autocast.h"
#include "kolo/nn/network.h"

// In which precision a network is evaluated.
namespace kolo {

// "fp32", "bf16" or "fp16"; InputError for anything else.
[[nodiscard]] Precision precision_named(const std::string& name);

// InputError where LibTorch can't compute in it: convolutions in three dimensions are tried,
// forward and backward.
void require_precision(Precision precision);

// The network's outputs in float32, computed in the given precision; what the network puts out by
// itself is left as it is with fp32.
[[nodiscard]] torch::Tensor forward_in(Precision precision, Network& network,
                                       const torch::Tensor& input);

}  // namespace kolo
