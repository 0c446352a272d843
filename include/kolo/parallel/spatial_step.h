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
  std::vector<std::int64_t> padding;  // left to LibTorch's layer: 0 along the axes of `halos`
};

// `like`, where it is not empty, gives the output's cuts. Error for another number of axes;
// InputError for lengths that the layer doesn't take.
[[nodiscard]] LayerStep plan_step(const DeviceMesh& mesh, std::span<const PartAxis> input,
                                  std::span<const AxisLayer> layers, std::string_view name,
                                  std::span<const PartAxis> like = {});

// The part as these axes have it: gathered along those that are whole there and not in the part,
// cut along those that are whole in the part and not there. Collective where something is gathered.
[[nodiscard]] torch::Tensor rows_as(const DeviceMesh& mesh, const SpatialPart& part,
                                    std::span<const PartAxis> axes);

}  // namespace kolo
