#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/layout/tiles.h"

// Prediction of a box, tile by tile.
namespace kolo {

struct TileRequest {
  std::int64_t size = 0;             // cells per edge of the box
  std::optional<AxisReach> reach;    // none: the whole box is a tile
  std::optional<std::int64_t> core;  // cells per edge, where the user has said
  double bytes_per_cell = 0;
};

// Plans the tiles of a box: of the requested core, or as large as the free memory of every rank's
// device allows, and enough for all ranks where that is faster. The same on all ranks. Error: not
// even the smallest fit. Collective.
[[nodiscard]] std::vector<Tile> plan_tiles(const Communicator& communicator,
                                           const torch::Device& device, const TileRequest& request);

}  // namespace kolo
