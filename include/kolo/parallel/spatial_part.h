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

// This rank's part of a batch of samples: a value that goes from layer to layer.
struct SpatialPart {
  torch::Tensor tensor;        // [N, C, rows along each axis]
  std::vector<PartAxis> axes;  // one to three, slowest first; the same on all ranks

  // The same rows after something that is done to each by itself (an activation, a dropout, a
  // change of type). Error for a tensor with other rows.
  [[nodiscard]] SpatialPart with(torch::Tensor other) const;
};

// The rows of this rank in samples of these lengths, for who reads no more than them. A mesh's
// spatial axes are the sample's, slowest first; axes that it lacks are not cut. InputError, the
// same on all ranks, where an axis has fewer rows than ranks, or the mesh cuts axes that samples
// lack: it says what fits.
[[nodiscard]] std::vector<RowRange> own_rows(const DeviceMesh& mesh,
                                             std::span<const std::int64_t> lengths);

// From own_rows() of samples of these lengths. Error for a tensor with other rows.
[[nodiscard]] SpatialPart part_from_rows(const DeviceMesh& mesh, torch::Tensor rows,
                                         std::span<const std::int64_t> lengths);

// From the whole samples [N, C, ...], which this rank has: a copy of its rows in their memory
// format. InputError as own_rows().
[[nodiscard]] SpatialPart part_of(const DeviceMesh& mesh, const torch::Tensor& samples);

// The rows of whole samples that `like` has, which are as long and have any channels: for targets.
// Local. Error for other lengths.
[[nodiscard]] torch::Tensor rows_like(const DeviceMesh& mesh, const SpatialPart& like,
                                      const torch::Tensor& samples);

// The whole samples, on every rank of the spatial group. Collective there, also in backward, which
// adds the gradients of all ranks; autograd sees it.
[[nodiscard]] torch::Tensor whole_of(const DeviceMesh& mesh, const SpatialPart& part);

// Along the channels, as torch::cat. Local: where one is whole along an axis, its part is taken
// unless all are. Error for parts that are cut differently.
[[nodiscard]] SpatialPart concatenate(const DeviceMesh& mesh, std::span<const SpatialPart> parts);

// What a mean over this rank's rows is to be multiplied by, so that the mean over the group's ranks
// is the mean over the sample's rows: rows here x ranks / rows of all; 1 for equal parts and where
// every rank has all rows. With that factor gradients are averaged over all ranks as without
// spatial axes: the average of what each rank's loss contributes to a parameter's gradient is then
// the gradient of the mean loss of all samples.
[[nodiscard]] double loss_factor(const DeviceMesh& mesh, const SpatialPart& part);

}  // namespace kolo
