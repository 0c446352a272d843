#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/data/loader.h"

namespace kolo {

// Where a network's parameters are, of which all are in one place; the CPU for one without any.
[[nodiscard]] torch::Device device_of(const torch::nn::Module& network);

// The batch, on that device. The host goes on while it is copied.
[[nodiscard]] Batch moved_to(const torch::Device& device, Batch batch);

}  // namespace kolo
