#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/data/box_files.h"
#include "kolo/layout/tiles.h"
#include "kolo/nn/network.h"
#include "kolo/train/objective.h"

// A box through a network, tile by tile.
namespace kolo {

// How far a network sees along each axis; nothing where it doesn't tell, so that it needs the
// whole.
[[nodiscard]] std::optional<AxisReach> reach_of(const Network& network);

// About the memory that a prediction takes per cell that is read, beside the network's own: all
// that its operations put out, as if nothing was freed before the end, and the fields. Runs the
// network on a small sample: evaluation mode, on the host.
[[nodiscard]] double bytes_per_cell(Network& network, std::int64_t channels,
                                    const AxisReach& reach);

// What is the same for all tiles.
struct TilePredictor {
  const BoxFile& box;
  Network& network;
  const Objective& objective;
  torch::Device device;

  // The core of a tile, [5, core]. Error: the network's output has another shape than it should.
  [[nodiscard]] torch::Tensor predict(const Tile& tile, std::vector<float>& scratch) const;
};

struct TileRequest {
  std::int64_t size = 0;             // cells per edge of the box
  std::optional<AxisReach> reach;    // none: the box as a whole
  std::optional<std::int64_t> core;  // cells per edge that were asked for
  double bytes_per_cell = 0;
};

// The tiles of a box: of the core that was asked for, or as large as the memory that is free on
// every rank's device allows, and such that all ranks have something to do where that is faster.
// The same on all ranks. Error: not even the smallest fit. Collective.
[[nodiscard]] std::vector<Tile> plan_tiles(const Communicator& communicator,
                                           const torch::Device& device, const TileRequest& request);

}  // namespace kolo
