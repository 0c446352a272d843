#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <torch/types.h>

#include "kolo/layout/spatial_plan.h"
#include "kolo/parallel/device_mesh.h"
#include "kolo/parallel/halo_exchange.h"

// Samples that several ranks share: what each rank has of them between layers.
namespace kolo {

// An axis of a sample, as ranks share it.
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

// Copies this rank's rows out of whole samples [N, C, ...], in their memory format. InputError as
// own_rows().
[[nodiscard]] SpatialPart part_of(const DeviceMesh& mesh, const torch::Tensor& samples);

// Needs of a layer that is computed in parts, along all axes.
struct LayerStep {
  std::vector<PartAxis> input, output;
  std::vector<HaloAxis> halos;  // to extend the input by; of a transposed layer, to fold the output
  std::vector<std::int64_t> padding;  // left to LibTorch's layer: 0 along the axes of `halos`
};

// `like`, where it is not empty, gives the output's cuts. Error for another number of axes;
// InputError for lengths that the layer doesn't take.
[[nodiscard]] LayerStep plan_step(const DeviceMesh& mesh, std::span<const PartAxis> input,
                                  std::span<const AxisLayer> layers, std::string_view name,
                                  std::span<const PartAxis> like = {});

// Returns the part as these axes have it: gathered along those that are whole there and not in the
// part, cut along those that are whole in the part and not there. Collective where something is
// gathered, also in backward, which adds the gradients of all ranks; autograd sees it.
[[nodiscard]] torch::Tensor rows_as(const DeviceMesh& mesh, const SpatialPart& part,
                                    std::span<const PartAxis> axes);

}  // namespace kolo
