#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "kolo/comm/communicator.h"

// State that ranks must have in common, taken from one of them: before the first step, and buffers
// at any time. Collective; every rank has the same network and the same kind of optimizer over it,
// else Error on every rank that names what differs (synchronize_buffers() does not look).
namespace kolo {

// Every parameter, trainable or not, becomes root's; in place, so whatever views the parameters
// stays valid. Large ones travel by themselves, small ones together.
void broadcast_parameters(const Communicator& communicator, const torch::nn::Module& module,
                          int root = 0);

// The same for buffers: running means and the like.
void broadcast_buffers(const Communicator& communicator, const torch::nn::Module& module,
                       int root = 0);

// The optimizer becomes root's: the state of every parameter (momenta, step counters, ...) and the
// options of every parameter group and of the defaults (learning rate, betas, ...). The
// optimizer's state is replaced, also by none where root is fresh. For every optimizer of
// torch::optim, and others whose save(), load() and options' serialize() are implemented.
//
// Parameters are matched by group and order. The state travels as LibTorch's own archive, so for a
// moment each rank has it in memory three times.
void broadcast_optimizer_state(const Communicator& communicator, torch::optim::Optimizer& optimizer,
                               int root = 0);

// Broadcasts parameters, buffers and optimizer state.
void broadcast_state(const Communicator& communicator, const torch::nn::Module& module,
                     torch::optim::Optimizer& optimizer, int root = 0);

// A module's buffers (running means and the like) become those of the lowest rank that has not
// joined; broadcast_buffers() takes them from a root that is given, and compares the ranks' modules
// first. Collective: one number, and the buffers together.
void synchronize_buffers(const Communicator& communicator, const torch::nn::Module& module);

}  // namespace kolo
