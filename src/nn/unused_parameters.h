#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kolo/nn/network.h"

namespace kolo {

// Names the trainable parameters that take no part in what a network in training mode makes of one
// sample of this shape, and so never get a gradient. Costs a forward pass.
[[nodiscard]] std::vector<std::string> find_unused_parameters(
    Network& network, std::span<const std::int64_t> input_shape);

}  // namespace kolo
