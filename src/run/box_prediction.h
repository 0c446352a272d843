#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/data/box_files.h"
#include "kolo/layout/tiles.h"
#include "kolo/nn/network.h"
#include "kolo/train/objective.h"

// Prediction of a box, tile by tile.
namespace kolo {

[[nodiscard]] Region region_of(const std::array<RowRange, 3>& rows);

// Reach of a network along each axis; nothing where it doesn't tell, and needs the whole box.
[[nodiscard]] std::optional<AxisReach> reach_of(const Network& network);

// Estimates the memory per cell read that a prediction takes beside the network's own: the outputs
// of all operations and the fields. Runs the network on a small sample, in evaluation mode on the
// host.
[[nodiscard]] double bytes_per_cell(Network& network, std::int64_t channels,
                                    const AxisReach& reach);

struct TilePredictor {
  const BoxFile& box;
  Network& network;
  const Objective& objective;
  torch::Device device;

  // Predicts the core of a tile, [5, core]. Error: the network's output has a wrong shape.
  [[nodiscard]] torch::Tensor predict(const Tile& tile, std::vector<float>& scratch) const;
};

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
