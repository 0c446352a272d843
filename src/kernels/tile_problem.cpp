#include "kernels/tile_problem.h"

#include <algorithm>

namespace kolo {

namespace {

void advance(Digits& digits, const Digits& lengths) {
  if (++digits[2] < lengths[2]) return;
  digits[2] = 0;
  if (++digits[1] < lengths[1]) return;
  digits[1] = 0;
  ++digits[0];
}

template <typename Work>
void each_met_tap(const TileAxes& axes, const Work& work) {
  const Digits kernel = {axes[0].kernel, axes[1].kernel, axes[2].kernel};
  std::int64_t tap = 0;
  for (Digits at{}; at[0] < kernel[0]; advance(at, kernel), ++tap)
    if (axes[0].is_met(at[0]) && axes[1].is_met(at[1]) && axes[2].is_met(at[2])) work(tap, at);
}

}  // namespace

TileProblem::TileProblem(const ConvolutionGeometry& geometry)
    : geometry_(geometry),
      axes_(tile_axes_of(geometry)),
      large_axes_(axes_),
      has_whole_lines_(axes_.back().kernel * geometry.inputs <= tile_depth),
      inputs_(geometry.inputs),
      large_vector_(whole_units(inputs_, tile_depth)) {
  if (!has_whole_lines_) return;
  large_axes_.back() = {.large = axes_.back().small, .small = axes_.back().small};
  inputs_ *= axes_.back().kernel;
  large_vector_ = axes_.back().stride * geometry.inputs;
}

std::int64_t TileProblem::small_vector() const {
  return whole_units(geometry_.outputs, tile_depth);
}

TileGrid TileProblem::large_grid(std::int64_t batch) const {
  return has_whole_lines_ ? TileGrid::of_large_lines(axes_, batch)
                          : TileGrid::of_large(axes_, batch);
}

std::vector<MetTap> TileProblem::large_taps(const TileGrid& large, const TileWindow& window) const {
  std::vector<MetTap> taps;
  each_met_tap(large_axes_, [&](std::int64_t tap, const Digits& at) {
    taps.push_back({tap, large.shift_of(large_axes_, at, window) * large_vector_});
  });
  std::ranges::sort(taps, {}, &MetTap::shift);
  return taps;
}

std::vector<MetTap> TileProblem::small_taps(const TileGrid& small, const Digits& phase) const {
  std::vector<MetTap> taps;
  each_met_tap(axes_, [&](std::int64_t tap, const Digits& at) {
    for (std::size_t i = 0; i < at.size(); ++i)
      if (axes_[i].phase_of(at[i]) != phase[i]) return;
    taps.push_back({tap, small.shift_of(axes_, at, {}) * small_vector()});
  });
  return taps;
}

std::vector<Digits> TileProblem::phases() const {
  const Digits strides = {axes_[0].stride, axes_[1].stride, axes_[2].stride};
  std::vector<Digits> phases;
  for (Digits phase{}; phase[0] < strides[0]; advance(phase, strides)) phases.push_back(phase);
  return phases;
}

}  // namespace kolo
