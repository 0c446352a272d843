#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kolo/kernels/partition.h"
#include "kolo/nn/network.h"
#include "kolo/parallel/device_mesh.h"

namespace kolo {

// Lets a network's layers compute samples that the ranks of mesh.spatial() share, by halo exchanges
// and, where a level is too small to be cut, by gathering it: Network::share_samples() takes it.
// `lengths`: of a sample, by axis after the channels. Local. InputError for a network without
// field_layers(), and for samples that the mesh can't cut: it says what fits.
[[nodiscard]] std::shared_ptr<const Partition> make_spatial_partition(
    const DeviceMesh& mesh, const Network& network, std::span<const std::int64_t> lengths);

}  // namespace kolo
