#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/aligned_values.h"
#include "base/half.h"
#include "kernels/convolution_kernel.h"
#include "kolo/base/checked.h"

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
  [[nodiscard]] std::int64_t of_phase() const { return divide_up(large, stride); }
  // Phases that taps meet: a single one meets the first, without padding.
  [[nodiscard]] std::int64_t phases() const { return kernel == 1 && padding == 0 ? 1 : stride; }
};

using TileAxes = std::array<TileAxis, 3>;  // missing ones come first

[[nodiscard]] TileAxes tile_axes_of(const ConvolutionGeometry& geometry);

// Three digits of a number, the last running fastest.
using Digits = std::array<std::int64_t, 3>;

// Values, [batch, positions, channels], as vectors of a grid: `length` values, zeros after the
// channels.
struct TileValues {
  const BFloat16* values = nullptr;
  std::int64_t channels = 0, length = 0;
};

// Positions [first, first + rows) of a grid, of each phase.
struct TileWindow {
  std::int64_t first = 0, rows = 0;
};

// The vectors of a window, one phase after the other.
class TileField {
 public:
  TileField(AlignedValues<BFloat16> memory, const BFloat16* values, std::int64_t first,
            std::int64_t length)
      : memory_(std::move(memory)), values_(values), first_(first), length_(length) {}

  // The vector of a position of phase 0, which the window has.
  [[nodiscard]] const BFloat16* at(std::int64_t position) const {
    return values_ + (position - first_) * length_;
  }

 private:
  AlignedValues<BFloat16> memory_;  // null: the values lie elsewhere
  const BFloat16* values_;
  std::int64_t first_, length_;
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
  [[nodiscard]] std::int64_t phases() const { return phases_[0] * phases_[1] * phases_[2]; }
  // The window that all taps meet from positions [begin, end) on.
  [[nodiscard]] TileWindow window_around(std::int64_t begin, std::int64_t end) const;
  // Positions that windows have in common with the next.
  [[nodiscard]] std::int64_t overlap() const { return row(before_) + row(after_); }
  // Rows of a window from a position of phase 0 to what a tap meets.
  [[nodiscard]] std::int64_t shift_of(const TileAxes& axes, const Digits& tap,
                                      const TileWindow& window) const;

  // The vectors of a window's rows [begin, end), phases counted one after the other, and zeros
  // after the last: copied to `room`, or where they lie, if the grid is dense.
  [[nodiscard]] const BFloat16* take(const TileValues& from, const TileWindow& window,
                                     std::int64_t begin, std::int64_t end, BFloat16* room) const;
  // All of a window, in the same way, copied side by side on LibTorch's threads.
  [[nodiscard]] TileField fill(const TileValues& from, const TileWindow& window) const;

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
  // Tells whether values lie in memory as on the grid: no zeros between, in whole stretches.
  [[nodiscard]] bool is_dense(const TileValues& values) const;
  // Copies `count` vectors from `x` on of a line of a phase; the lines of a batch are numbered.
  void copy_line(const TileValues& from, std::int64_t phase, std::int64_t line, std::int64_t x,
                 std::int64_t count, BFloat16* to) const;
  // Calls work(row, sample, position) for all positions in order.
  template <typename Work>
  void each_position(const Work& work) const;

  std::int64_t batch_ = 0;
  bool is_of_large_ = false;
  Digits lengths_{};                        // of the grid
  Digits before_{}, after_{};               // how far shifts lead
  Digits values_{}, strides_{}, phases_{};  // lengths of the values, and how they are taken
  Digits ends_{};                           // values from here on are not met
  std::int64_t zeros_of_line_ = 0;          // before the values of a whole line
  bool has_whole_lines_ = false;
  Digits positions_{};  // of a result's phase
  Digits results_{}, result_strides_{};
};

}  // namespace kolo
