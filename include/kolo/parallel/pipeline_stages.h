#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>

#include "kolo/base/network_stage.h"

// Chains of stages, and what a rank of a pipeline keeps of one. All local.
namespace kolo {

// A Sequential of layers that take one tensor and make one: a stage for each, under its name there.
// One after another they are its forward().
[[nodiscard]] std::vector<NetworkStage> stages_of(const torch::nn::Sequential& network);

// InputError where the stages lack parameters or buffers of the network: it names the first ones.
void require_whole_chain(const torch::nn::Module& network, std::span<const NetworkStage> stages);

// InputError where bounds don't cut the stages into parts of one stage or more, [bounds[i],
// bounds[i + 1]) each, or where two parts share a parameter or buffer (tied weights): it names it,
// and the parts, since each would be trained apart.
void require_parts(std::span<const NetworkStage> stages, std::span<const std::size_t> bounds);

// A module that has the modules of these stages under their names in the network, and so their
// parameters and buffers under theirs: what an arena, an optimizer or a checkpoint takes for a
// rank's part of the network. Its train() and to() reach them.
[[nodiscard]] std::shared_ptr<torch::nn::Module> module_of(std::span<const NetworkStage> stages);

}  // namespace kolo
