#pragma once

#include <torch/nn/module.h>

#include "kolo/comm/communicator.h"

namespace kolo {

// A module's buffers (running means and the like) become those of the lowest rank that has not
// joined; broadcast_buffers() takes them from a root that is given, and compares the ranks' modules
// first. Collective: one number, and the buffers together.
void synchronize_buffers(const Communicator& communicator, const torch::nn::Module& module);

}  // namespace kolo
