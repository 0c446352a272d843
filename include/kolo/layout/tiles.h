#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kolo/layout/spatial_plan.h"

namespace kolo {

// Overlapping tiles of a cube, for networks whose outputs see no farther than a margin around them:
// the core of a tile's output is that of the whole cube's, since the border of a tile is the border
// of the cube wherever the core is nearer to it than the margin.

// How far the outputs of a stack of layers see along an axis.
struct AxisReach {
  // Outputs [a, b), a and b multiples of `multiple`, depend on inputs [a - below, b + above) alone,
  // at any layer between too.
  std::int64_t below = 0;
  std::int64_t above = 0;
  // Tiles begin and end at multiples of the product of the strides, so that the rows of every layer
  // are the same rows in each tile.
  std::int64_t multiple = 1;

  // Rows that are read beyond a core: below and above, rounded up to multiples.
  [[nodiscard]] std::int64_t margin_below() const;
  [[nodiscard]] std::int64_t margin_above() const;

  friend bool operator==(const AxisReach&, const AxisReach&) = default;
};

// Reach of layers each of which takes the output of the one before; the output of a layer that
// mirrors an earlier one is joined with that one's input. Two layers of kernel 4, stride 2 and
// padding 1 and their transposes see 7 rows to either side, six see 127. InputError for layers
// whose lengths don't follow from their strides, or that end with another length than they began.
[[nodiscard]] AxisReach reach_of(std::span<const AxisLayer> layers);

// Cells of a cube that are read, and the core, whose outputs count.
struct Tile {
  std::array<RowRange, 3> read, core;

  [[nodiscard]] std::int64_t cells() const;  // read
};

// "8 or 16", for messages.
[[nodiscard]] std::string nearest_multiples(std::int64_t length, std::int64_t multiple);

// Tiles whose cores cover a cube of `length` cells per edge without overlap, cut along each axis
// into stretches of `core` rows, of which the last may be shorter; the last axis varies fastest.
// InputError if `length` or `core` is no multiple of reach.multiple: it says which are.
[[nodiscard]] std::vector<Tile> cut_in_tiles(std::int64_t length,
                                             const std::array<std::int64_t, 3>& core,
                                             const AxisReach& reach);

// Core with which the rank that has most to read reads least, of those whose tiles read
// `most_cells` or fewer; of equals the one with the fewest tiles. None if all read more. For one
// rank and room enough it is the whole cube. First axes are cut first, whose parts lie together in
// files.
[[nodiscard]] std::optional<std::array<std::int64_t, 3>> choose_core(std::int64_t length,
                                                                     const AxisReach& reach,
                                                                     std::int64_t most_cells,
                                                                     int ranks);

// Numbers of each rank's tiles, ascending: the largest go first, to the rank that has least to
// read. A pure function, so that ranks need not communicate.
[[nodiscard]] std::vector<std::vector<std::size_t>> deal_tiles(std::span<const Tile> tiles,
                                                               int ranks);

}  // namespace kolo
