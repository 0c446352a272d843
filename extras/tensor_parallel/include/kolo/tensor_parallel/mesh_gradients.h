#pragma once

#include <torch/nn/module.h>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/device_mesh.h"

// A step's gradients where ranks of a mesh share a network's layers. In this order: backward(), the
// average over mesh.replicas() (GradientReducer::finish(), or nothing where there are no replicas),
// sum_sequence_gradients() where the network works on parts of a sequence, clip_gradient_norm(),
// the optimizer.
namespace kolo {

// Adds up the gradients of sequence_parameters(module) over the group along the tensor axis, in
// place; without it replicas of these parameters drift apart. Collective in that group: one
// all-reduce per dtype, none where there are no such parameters. Error for one without a gradient.
void sum_sequence_gradients(const Communicator& group, const torch::nn::Module& module);

// The norm of all gradients of the network that the mesh's ranks share: parameters that are cut
// count with all their parts, replicated ones once, and with pipeline ranks those of all stages.
// The same bits on all ranks that share it. Parameters without a gradient count as zero. norm_type
// is 2, another number above 0, or infinity (InputError for others). Collective along the tensor
// and the pipe axis: one number each. kolo::clip_gradient_norm(parameters) knows of this rank's
// parameters alone.
[[nodiscard]] double mesh_gradient_norm(const DeviceMesh& mesh, const torch::nn::Module& module,
                                        double norm_type = 2);

// The norm before, after scaling all gradients by maximum_norm / (norm + 1e-6) where that is below
// 1, as torch::nn::utils::clip_grad_norm_ does. A norm that is not finite scales nothing.
double clip_gradient_norm(const DeviceMesh& mesh, const torch::nn::Module& module,
                          double maximum_norm, double norm_type = 2);

}  // namespace kolo
