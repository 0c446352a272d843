#pragma once

#include <cstddef>
#include <span>

#include <torch/types.h>

#include "kolo/layout/spatial_plan.h"
#include "kolo/parallel/device_mesh.h"

// Rows that move between the ranks that share a sample. Both functions are seen by autograd and are
// each other's backward pass (kolo/layout/spatial_plan.h); second derivatives work.
//
// A tensor is [N, C, L], [N, C, H, W] or [N, C, D, H, W] of a floating dtype, with this rank's rows
// along each axis. N and C are the same on all ranks of the mesh's spatial group, and so is whether
// the tensor requires a gradient: every rank goes through forward and backward of the same
// exchanges in the same order. The result has the tensor's memory format, which may differ between
// ranks.
//
// Axes are exchanged one after another, the later ones with the rows received before, so that
// corners need no messages of their own: at most two messages per axis each way, while the rest is
// copied. What is received is added in a fixed order, below and then above, so bits repeat. It all
// goes over mesh.spatial(), with the tags 0 to 2, blocks in the thread that calls, and, in
// backward, in the one that runs it.
namespace kolo {

// One of the mesh's spatial axes, and what happens along it. A cut among one rank instead of the
// mesh's number is local: borders alone.
struct HaloAxis {
  std::size_t axis = 0;  // 0 to 2, of dimension 2 + axis
  LayerCut cut;          // that is not computed whole
};

// From the rows that this rank owns, cut.exchanged().rows(r), to those that it reads,
// cut.extended(r). Rows beyond a border are 0. Error, before anything
// is sent, for a tensor that has other rows, or axes that the mesh or the tensor lacks.
[[nodiscard]] torch::Tensor extend_halos(const DeviceMesh& mesh, const torch::Tensor& tensor,
                                         std::span<const HaloAxis> axes);

// From the rows that this rank has made, cut.extended(r), to those that it owns: surplus rows are
// added to their owners', dropped beyond a border; rows that nobody made are 0. The same errors.
[[nodiscard]] torch::Tensor fold_halos(const DeviceMesh& mesh, const torch::Tensor& tensor,
                                       std::span<const HaloAxis> axes);

}  // namespace kolo
