#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/half.h"
#include "kernels/convolution_kernel.h"

// Grids of positions on which every tap of a convolution is one shift, so that 16 positions in a
// row are a matrix's rows, wherever a line ends.
namespace kolo {

// One dimension of a convolution from `large` positions to `small` ones. Its positions on the large
// side are `stride` phases: i = stride * j + phase. The tap k connects the small position o with
// the large one of phase (k - padding) mod stride and index j = o + (k - padding) div stride.
struct TileAxis {
  std::int64_t large = 1, small = 1, kernel = 1, stride = 1, padding = 0;

  [[nodiscard]] std::int64_t shift_of(std::int64_t tap) const;
  [[nodiscard]] std::int64_t phase_of(std::int64_t tap) const;
  // Tells whether it connects any positions.
  [[nodiscard]] bool is_met(std::int64_t tap) const;
  // Shifts of the first and of the last tap, at most and at least 0.
  [[nodiscard]] std::int64_t lowest() const { return shift_of(0); }
  [[nodiscard]] std::int64_t highest() const { return shift_of(kernel - 1); }
  // Positions of phase 0, which has the most.
  [[nodiscard]] std::int64_t of_phase() const { return (large + stride - 1) / stride; }
};

using TileAxes = std::array<TileAxis, 3>;  // missing ones come first

[[nodiscard]] TileAxes tile_axes_of(const ConvolutionGeometry& geometry);

// Three digits of a number, the last running fastest.
using Digits = std::array<std::int64_t, 3>;

// Memory of a field: vectors of channels on a grid, zeros between samples' lines and planes, and
// before and after all.
struct TileField {
  std::unique_ptr<BFloat16[]> memory;
  const BFloat16* first = nullptr;  // the first sample's first vector
};

// Rows of a tile: positions of the grid from `start` on, and for each the row of a result that it
// makes, or -1.
struct TileRows {
  std::int64_t start = 0;
  std::array<std::int32_t, 16> results{};
};

// The grid of a batch. A position of sample b has the number ((b L0 + z) L1 + y) L2 + x, with
// lengths L that leave zeros where a shift leads beyond a line's end, or before its beginning,
// which is the end of the line before.
class TileGrid {
 public:
  // For the large side's values: a grid a phase, one after the other, with the small side's
  // positions.
  [[nodiscard]] static TileGrid of_large(const TileAxes& axes, std::int64_t batch);
  // For the large side's values of few channels: all taps along a line are one vector, which begins
  // stride x channels values after the one before and overlaps it.
  [[nodiscard]] static TileGrid of_large_lines(const TileAxes& axes, std::int64_t batch);
  // For the small side's values, with the positions of a phase of the large side.
  [[nodiscard]] static TileGrid of_small(const TileAxes& axes, std::int64_t batch);

  [[nodiscard]] std::int64_t rows() const {
    return batch_ * lengths_[0] * lengths_[1] * lengths_[2];
  }
  [[nodiscard]] std::int64_t rows_before() const { return row(before_); }
  [[nodiscard]] std::int64_t rows_after() const;
  [[nodiscard]] std::int64_t phases() const { return strides_[0] * strides_[1] * strides_[2]; }
  // Rows from the grid of phase 0 to what a tap meets.
  [[nodiscard]] std::int64_t shift_of(const TileAxes& axes, const Digits& tap) const;

  // Copies values, [batch, positions, channels], to vectors of the grid of `length` values, with
  // zeros after the channels, side by side on LibTorch's threads; or takes them where they lie, if
  // they are a whole grid.
  [[nodiscard]] TileField fill(const BFloat16* values, std::int64_t channels,
                               std::int64_t length) const;

  // Tiles that have all positions, of a phase of the result where it is the large side.
  [[nodiscard]] std::vector<TileRows> tiles(const Digits& phase) const;
  // Beginnings of stretches of `length` positions that have all of a whole batch.
  [[nodiscard]] std::vector<std::int64_t> stretches(std::int64_t length) const;

  // The grid of the small side's own values that fits this one of the large side.
  [[nodiscard]] TileGrid with_results() const;

 private:
  [[nodiscard]] std::int64_t row(const Digits& at) const {
    return (at[0] * lengths_[1] + at[1]) * lengths_[2] + at[2];
  }
  void fill_line(const BFloat16* values, std::int64_t channels, std::int64_t length,
                 std::int64_t line, BFloat16* to) const;
  // Without zeros between, and in whole stretches.
  [[nodiscard]] bool is_dense() const;
  // Calls work(row, sample, position) for all positions in order.
  template <typename Work>
  void each_position(const Work& work) const;

  std::int64_t batch_ = 0;
  bool is_of_large_ = false;
  Digits lengths_{};                // of the grid
  Digits before_{}, after_{};       // how far shifts lead
  Digits values_{}, strides_{};     // lengths of the values, and the phases that they are taken by
  Digits ends_{};                   // values from here on are not met
  std::int64_t zeros_of_line_ = 0;  // before the values of a whole line
  bool has_whole_lines_ = false;
  Digits positions_{};  // of a result's phase
  Digits results_{}, result_strides_{};
};

}  // namespace kolo
