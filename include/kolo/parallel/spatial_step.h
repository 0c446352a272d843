#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <torch/types.h>

#include "kolo/layout/spatial_plan.h"
#include "kolo/parallel/device_mesh.h"
#include "kolo/parallel/halo_exchange.h"
#include "kolo/parallel/spatial_part.h"

namespace kolo {

// What a layer takes to be computed in parts, along all axes.
struct LayerStep {
  std::vector<PartAxis> input, output;
  std::vector<HaloAxis> halos;  // to extend the input by; of a transposed layer, to fold the output
  // What is left to LibTorch's layer, by axis: 0 along those of `halos`.
  std::vector<std::int64_t> padding, output_padding;
};

// `like` gives the output's cuts, where there is one. Error for a part of another number of axes;
// InputError for lengths that the layer doesn't take.
[[nodiscard]] LayerStep plan_step(const DeviceMesh& mesh, const SpatialPart& input,
                                  std::span<const AxisLayer> layers, std::string_view name,
                                  const SpatialPart* like = nullptr);

// The part as these axes have it: gathered along those that are whole there and not in the part,
// cut along those that are whole in the part and not there. Collective where something is gathered.
[[nodiscard]] torch::Tensor rows_as(const DeviceMesh& mesh, const SpatialPart& part,
                                    std::span<const PartAxis> axes);

// Ranks that hold the same rows, because axes are whole.
[[nodiscard]] std::int64_t copies_of(const DeviceMesh& mesh, const SpatialPart& part);

}  // namespace kolo
