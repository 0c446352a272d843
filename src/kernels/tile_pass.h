#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/tile_problem.h"

// Results of a convolution's output or its input's gradient by tiles: all taps of 16 positions and
// 16 channels are added up in one tile of sums.
namespace kolo {

// Results of one phase of a grid; of the small side there is one.
struct ResultPhase {
  Digits phase{};
  std::vector<TileRows> tiles;
};

// Memory that is read and written: vectors of `chunks` tiles of the inner dimension, and rows of
// `channels` results.
struct PassMemory {
  TileValues from;
  std::int64_t chunks = 0;
  BFloat16* results = nullptr;
  std::int64_t channels = 0;
  const float* bias = nullptr;

  [[nodiscard]] std::int64_t columns() const { return whole_units(channels, tile_lanes); }
  [[nodiscard]] std::int64_t values_of_tap() const { return chunks * tile_depth * columns(); }
};

// A tap whose weights are packed, and its first tile; those of the next 16 columns lie `stride`
// values later.
struct PackedTap {
  std::int64_t tap = 0;
  BFloat16* tiles = nullptr;
  std::int64_t stride = 0;
};

struct TapPacker {
  std::int64_t parts = 0;  // of a tap
  std::function<void(const PackedTap& to, std::int64_t part)> pack;
};

// The taps that results of a phase meet in a field of that window.
using TapsOfPhase = std::function<std::vector<MetTap>(const Digits& phase, const TileWindow&)>;

// Computes all phases, on LibTorch's threads.
void compute_results(const TileGrid& grid, std::span<const ResultPhase> phases,
                     const PassMemory& memory, const TapsOfPhase& taps_of, const TapPacker& packer);

}  // namespace kolo
