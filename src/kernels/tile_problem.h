#pragma once

#include <cstdint>
#include <vector>

#include "kernels/convolution_kernel.h"
#include "kernels/tile_grid.h"
#include "kernels/tile_products.h"
#include "kolo/base/checked.h"

namespace kolo {

using tile_products::block_lanes, tile_products::tile_depth, tile_products::tile_lanes;
using tile_products::tile_values;

// A tap of the kernel: its number, the last dimension running fastest, and how far away the values
// are that it meets in a field.
struct MetTap {
  std::int64_t tap = 0, shift = 0;
};

// A convolution as tiles compute it. The vectors of its large side have a channel a value; where
// channels are few, all taps along a line are one vector, which overlaps the next.
class TileProblem {
 public:
  explicit TileProblem(const ConvolutionGeometry& geometry);

  [[nodiscard]] const ConvolutionGeometry& geometry() const { return geometry_; }
  // Rows of a tap's weights on the large side, and values from one of its vectors to the next.
  [[nodiscard]] std::int64_t inputs() const { return inputs_; }
  [[nodiscard]] std::int64_t large_vector() const { return large_vector_; }
  [[nodiscard]] std::int64_t small_vector() const;

  [[nodiscard]] TileGrid large_grid(std::int64_t batch) const;
  [[nodiscard]] TileGrid small_grid() const { return TileGrid::of_small(axes_, geometry_.batch); }
  // Taps that don't fall on padding everywhere: by phases of the large side, and in each from the
  // first position to the last; or those of one phase, in the field of the small side.
  [[nodiscard]] std::vector<MetTap> large_taps(const TileGrid& large,
                                               const TileWindow& window) const;
  [[nodiscard]] std::vector<MetTap> small_taps(const TileGrid& small, const Digits& phase) const;
  [[nodiscard]] std::vector<Digits> phases() const;

 private:
  ConvolutionGeometry geometry_;
  TileAxes axes_, large_axes_;
  bool has_whole_lines_;
  std::int64_t inputs_, large_vector_;
};

// Sets the gradients of all weights, [taps, inputs, outputs].
void put_weight_gradients(const TileProblem& problem, const BFloat16* input,
                          const BFloat16* output_gradient, float* gradients);

// The least multiple of `unit` that is not smaller.
[[nodiscard]] constexpr std::int64_t whole_units(std::int64_t count, std::int64_t unit) {
  return divide_up(count, unit) * unit;
}

// Tiles of a right-hand factor: those of 16 columns lie together, `stride` values from the next
// columns'.
struct PackedTiles {
  const BFloat16* tiles = nullptr;
  std::int64_t stride = 0;

  // Tiles of 32 columns from a multiple of 32 on, or of 16, if no more are left.
  [[nodiscard]] tile_products::Right at(std::int64_t column, std::int64_t columns) const {
    const auto* const first = tiles + column / tile_lanes * stride;
    return {first, columns - column > tile_lanes ? first + stride : nullptr};
  }
};

}  // namespace kolo
