#include "kernels/tile_grid.h"

#include <algorithm>

#include <ATen/Parallel.h>

#include "kolo/base/checked.h"

namespace kolo {

namespace {

constexpr std::int64_t stretch = 32;  // the longest that tiles() and stretches() give

// The largest whole number of `divisor`s in a number that may be negative.
std::int64_t floor_divide(std::int64_t number, std::int64_t divisor) {
  return (number >= 0 ? number : number - divisor + 1) / divisor;
}

Digits digits_of(std::int64_t number, const Digits& lengths) {
  return {number / lengths[2] / lengths[1], number / lengths[2] % lengths[1], number % lengths[2]};
}

std::int64_t product_of(const Digits& digits) {
  return checked_product<std::int64_t>(digits);
}

}  // namespace

std::int64_t TileAxis::shift_of(std::int64_t tap) const {
  return floor_divide(tap - padding, stride);
}

std::int64_t TileAxis::phase_of(std::int64_t tap) const {
  return tap - padding - stride * shift_of(tap);
}

bool TileAxis::is_met(std::int64_t tap) const {
  const auto first = std::max<std::int64_t>(0, -shift_of(tap));
  return first < small && first * stride + tap - padding < large;
}

TileAxes tile_axes_of(const ConvolutionGeometry& geometry) {
  const auto small = geometry.output_size();
  TileAxes axes;
  for (std::size_t i = 0, to = axes.size() - small.size(); i < small.size(); ++i, ++to) {
    axes[to] = {.large = geometry.size[i],
                .small = small[i],
                .kernel = geometry.kernel[i],
                .stride = geometry.stride[i],
                .padding = geometry.padding[i]};
  }
  return axes;
}

TileGrid TileGrid::of_large(const TileAxes& axes, std::int64_t batch) {
  TileGrid grid;
  grid.batch_ = batch;
  grid.is_of_large_ = true;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto& axis = axes[i];
    grid.before_[i] = -axis.lowest();
    grid.after_[i] = axis.highest();
    grid.values_[i] = axis.large;
    grid.strides_[i] = axis.stride;
    grid.phases_[i] = axis.phases();
    grid.ends_[i] = std::min(axis.of_phase(), axis.small + axis.highest());
    grid.positions_[i] = grid.results_[i] = axis.small;
    grid.result_strides_[i] = 1;
    grid.lengths_[i] = std::max(axis.small + axis.highest(), grid.ends_[i] - axis.lowest());
  }
  return grid;
}

TileGrid TileGrid::of_large_lines(const TileAxes& axes, std::int64_t batch) {
  const auto& line = axes.back();
  auto others = axes;
  others.back() = {.large = line.small, .small = line.small};
  auto grid = of_large(others, batch);
  const auto vectors = [&](std::int64_t values) {
    return (values + line.stride - 1) / line.stride;
  };
  grid.has_whole_lines_ = true;
  grid.zeros_of_line_ = line.padding;
  grid.after_.back() = vectors(line.kernel) - 1;
  grid.values_.back() = line.large;
  grid.lengths_.back() =
      std::max(line.small - 1 + vectors(line.kernel), vectors(line.padding + line.large));
  return grid;
}

TileGrid TileGrid::of_small(const TileAxes& axes, std::int64_t batch) {
  TileGrid grid;
  grid.batch_ = batch;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto& axis = axes[i];
    grid.before_[i] = axis.highest();
    grid.after_[i] = -axis.lowest();
    grid.values_[i] = grid.ends_[i] = axis.small;
    grid.strides_[i] = grid.phases_[i] = 1;
    grid.positions_[i] = axis.of_phase();
    grid.results_[i] = axis.large;
    grid.result_strides_[i] = axis.stride;
    grid.lengths_[i] = std::max(axis.of_phase() - axis.lowest(), axis.small + axis.highest());
  }
  return grid;
}

TileGrid TileGrid::with_results() const {
  TileGrid grid = *this;
  grid.is_of_large_ = grid.has_whole_lines_ = false;
  grid.before_ = grid.after_ = {};
  grid.values_ = grid.ends_ = positions_;
  grid.strides_ = grid.phases_ = {1, 1, 1};
  return grid;
}

bool TileGrid::is_dense(const TileValues& values) const {
  return values.channels == values.length && !has_whole_lines_ && lengths_ == values_ &&
         phases() == 1 && overlap() == 0 && rows() % stretch == 0;
}

TileWindow TileGrid::window_around(std::int64_t begin, std::int64_t end) const {
  return {begin - row(before_), end - begin + overlap()};
}

std::int64_t TileGrid::shift_of(const TileAxes& axes, const Digits& tap,
                                const TileWindow& window) const {
  Digits shift{};
  std::int64_t phase = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    shift[i] = axes[i].shift_of(tap[i]);
    phase = phase * phases_[i] + axes[i].phase_of(tap[i]);
  }
  return is_of_large_ ? phase * window.rows + row(shift) : -row(shift);
}

void TileGrid::copy_line(const TileValues& from, std::int64_t phase, std::int64_t line,
                         std::int64_t x, std::int64_t count, BFloat16* to) const {
  const auto channels = from.channels, length = from.length;
  const auto [sample, z, y] = digits_of(line, {batch_, lengths_[0], lengths_[1]});
  const auto at = digits_of(phase, phases_);
  const auto at_z = z * strides_[0] + at[0], at_y = y * strides_[1] + at[1];
  const bool is_met = z < ends_[0] && y < ends_[1] && at_z < values_[0] && at_y < values_[1];
  const auto* const values =
      from.values + ((sample * values_[0] + at_z) * values_[1] + at_y) * values_[2] * channels;
  auto* const end = to + count * length;
  if (is_met && has_whole_lines_) {
    const auto first = zeros_of_line_ * channels, last = first + values_[2] * channels;
    const auto from_here = std::clamp(x * length, first, last);
    const auto to_here = std::clamp((x + count) * length, first, last);
    if (x * length < first)
      to = std::fill_n(to, std::min(first, (x + count) * length) - x * length, BFloat16{});
    to = std::copy(values + from_here - first, values + to_here - first, to);
  } else if (is_met) {
    const auto met = std::min(ends_[2], (values_[2] - at[2] + strides_[2] - 1) / strides_[2]);
    const auto* vector = values + (x * strides_[2] + at[2]) * channels;
    auto left = std::clamp<std::int64_t>(met - x, 0, count);
    if (strides_[2] == 1 && channels == length) {
      to = std::copy_n(vector, left * channels, to);
      left = 0;
    }
    for (; left > 0; --left, vector += strides_[2] * channels) {
      to = std::copy_n(vector, channels, to);
      to = std::fill_n(to, length - channels, BFloat16{});
    }
  }
  std::fill(to, end, BFloat16{});
}

const BFloat16* TileGrid::take(const TileValues& from, const TileWindow& window, std::int64_t begin,
                               std::int64_t end, BFloat16* room) const {
  if (is_dense(from)) return from.values + (window.first + begin) * from.length;
  auto* to = room;
  for (auto row = begin; row < end;) {
    const auto phase = row / window.rows, position = window.first + row % window.rows;
    auto count = std::min(end - row, window.rows - row % window.rows);
    if (position < 0) count = std::min(count, -position);
    if (phase < phases() && position >= 0 && position < rows()) {
      const auto x = position % lengths_[2];
      count = std::min(count, lengths_[2] - x);
      copy_line(from, phase, position / lengths_[2], x, count, to);
    } else {
      std::fill_n(to, count * from.length, BFloat16{});
    }
    row += count;
    to += count * from.length;
  }
  return room;
}

TileField TileGrid::fill(const TileValues& from, const TileWindow& window) const {
  if (is_dense(from)) return {nullptr, from.values, 0, from.length};
  constexpr std::int64_t least_rows = 256;
  const auto count = checked_product<std::int64_t>(std::array{phases(), window.rows});
  const auto values = checked_multiply(count, from.length);
  auto memory = uninitialized<BFloat16>(values + stretch);
  at::parallel_for(0, count, least_rows, [&](std::int64_t begin, std::int64_t end) {
    (void)take(from, window, begin, end, memory.get() + begin * from.length);
  });
  std::fill_n(memory.get() + values, stretch, BFloat16{});  // vectors of whole lines overlap
  const auto* const first = memory.get();
  return {std::move(memory), first, window.first, from.length};
}

template <typename Work>
void TileGrid::each_position(const Work& work) const {
  const auto positions = product_of(positions_);
  for (std::int64_t sample = 0; sample < batch_; ++sample) {
    const auto before = sample * lengths_[0] * lengths_[1] * lengths_[2];
    for (std::int64_t position = 0; position < positions; ++position) {
      const auto at = digits_of(position, positions_);
      work(before + row(at), sample, at);
    }
  }
}

std::vector<TileRows> TileGrid::tiles(const Digits& phase) const {
  constexpr std::int64_t length = 16;
  std::vector<TileRows> tiles;
  each_position([&](std::int64_t row, std::int64_t sample, const Digits& at) {
    std::int64_t result = sample;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const auto along = at[i] * result_strides_[i] + phase[i];
      if (along >= results_[i]) return;
      result = result * results_[i] + along;
    }
    if (tiles.empty() || row >= tiles.back().start + length) {
      tiles.push_back({.start = row});
      tiles.back().results.fill(-1);
    }
    tiles.back().results[static_cast<std::size_t>(row - tiles.back().start)] =
        narrow<std::int32_t>(result);
  });
  return tiles;
}

std::vector<std::int64_t> TileGrid::stretches(std::int64_t length) const {
  std::vector<std::int64_t> starts;
  each_position([&](std::int64_t row, std::int64_t, const Digits&) {
    if (starts.empty() || row >= starts.back() + length) starts.push_back(row);
  });
  return starts;
}

}  // namespace kolo
