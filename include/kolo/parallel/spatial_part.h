#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <torch/types.h>

#include "kolo/layout/spatial_plan.h"
#include "kolo/parallel/device_mesh.h"

// Samples that several ranks share: what each rank has of them between layers.
namespace kolo {

// How an axis of a sample is shared.
struct PartAxis {
  AxisCut cut;
  // Every rank has all rows, because a level was too small to be cut; `cut` says which of them are
  // a rank's own as soon as a layer can be computed in parts again.
  bool is_whole = false;

  friend bool operator==(const PartAxis&, const PartAxis&) = default;
};

// This rank's part of a batch of samples, between two layers.
struct SpatialPart {
  torch::Tensor tensor;        // [N, C, rows along each axis]
  std::vector<PartAxis> axes;  // one to three, slowest first; the same on all ranks
};

// The rows of this rank in samples of these lengths, for who reads no more than them. A mesh's
// spatial axes are the sample's, slowest first; axes that it lacks are not cut. InputError, the
// same on all ranks, where an axis has fewer rows than ranks, or the mesh cuts axes that samples
// lack: it says what fits.
[[nodiscard]] std::vector<RowRange> own_rows(const DeviceMesh& mesh,
                                             std::span<const std::int64_t> lengths);

// From the whole samples [N, C, ...], which this rank has: a copy of its rows in their memory
// format. InputError as own_rows().
[[nodiscard]] SpatialPart part_of(const DeviceMesh& mesh, const torch::Tensor& samples);

// The whole samples, on every rank of the spatial group. Collective there, also in backward, which
// adds the gradients of all ranks; autograd sees it.
[[nodiscard]] torch::Tensor whole_of(const DeviceMesh& mesh, const SpatialPart& part);

}  // namespace kolo
