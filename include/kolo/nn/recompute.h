#pragma once

#include <vector>

#include "kolo/base/network_stage.h"

// Memory for time: stages of a network of which backward keeps the inputs alone. What they compute
// inside goes at once, and is computed again in backward, which costs one more forward pass. With
// stages of equal size backward needs the memory of all their inputs and of the inside of one.
// Source: Chen et al., arXiv:1604.06174. (LibTorch has it in Python alone.)
//
//   const auto stages = recomputed(network->stages());
//   const auto output = run_stages(stages, {input}).front();
namespace kolo {

// The same stages, with the same outputs and gradients of parameters and inputs to the bit. The
// second pass draws the same random numbers (dropout) and leaves the generators where they were,
// leaves buffers alone (running statistics), and computes as the first one did: under its autocast
// and PlainKernels. Layers whose statistics are taken over ranks communicate once more, in
// backward, at the same place on all ranks.
//
// Where a stage changes what it is given in place, it is given a copy: of all its inputs in its
// first pass, in later ones of those alone. Where gradients are off the stage is just computed.
//
// Backward is Tensor::backward(): gradients of parameters are added up inside of it, so hooks on
// parameters (GradientReducer) see them, while torch::autograd::grad() with respect to parameters
// does not; no second derivatives. Error in backward where an input was changed in place since. One
// thread at a time may use a stage, as its modules.
[[nodiscard]] std::vector<NetworkStage> recomputed(std::vector<NetworkStage> stages);

}  // namespace kolo
