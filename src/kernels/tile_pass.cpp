#include "kernels/tile_pass.h"

#include <algorithm>
#include <array>

#include <ATen/Parallel.h>

#include "kolo/base/checked.h"

namespace kolo {

namespace {

constexpr std::int64_t block_values = block_lanes * block_lanes;
constexpr std::int64_t most_packed = 1 << 19;  // weights that stay in a second-level cache

// Weights of some taps, and where they meet the field.
struct PackedTaps {
  AlignedValues<BFloat16> memory;
  std::int64_t stride = 0;
  std::vector<std::int64_t> shifts;
};

PackedTaps pack(std::span<const MetTap> taps, const PassMemory& memory, const TapPacker& packer) {
  const auto count = narrow<std::int64_t>(taps.size());
  PackedTaps packed{.memory = uninitialized<BFloat16>(count * memory.values_of_tap()),
                    .stride = count * memory.chunks * tile_values};
  for (const MetTap& tap : taps) packed.shifts.push_back(tap.shift);
  at::parallel_for(0, count * packer.parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      const auto tap = i / packer.parts;
      packer.pack({taps[static_cast<std::size_t>(tap)].tap,
                   packed.memory.get() + tap * memory.chunks * tile_values, packed.stride},
                  i % packer.parts);
    }
  });
  return packed;
}

// Products of pairs of tiles and 32 columns.
struct Products {
  std::span<const TileRows> tiles;
  const TileField& field;
  const PackedTaps& packed;
  const PassMemory& memory;

  [[nodiscard]] std::int64_t pairs() const { return (narrow<std::int64_t>(tiles.size()) + 1) / 2; }
  [[nodiscard]] std::int64_t blocks() const { return divide_up(memory.columns(), block_lanes); }

  void multiply(std::int64_t pair, std::int64_t block, float* sums, bool is_added) const {
    const auto rows_of = [&](std::int64_t tile) {
      return tile < narrow<std::int64_t>(tiles.size())
                 ? field.at(tiles[static_cast<std::size_t>(tile)].start)
                 : nullptr;
    };
    tile_products::multiply(
        {rows_of(2 * pair), rows_of(2 * pair + 1), memory.from.length, packed.shifts,
         memory.chunks},
        PackedTiles{packed.memory.get(), packed.stride}.at(block * block_lanes, memory.columns()),
        {sums, block_lanes, is_added});
  }

  void finish(std::int64_t pair, std::int64_t block, const float* sums) const {
    const auto column = block * block_lanes;
    const auto columns = std::min(block_lanes, memory.channels - column);
    const float* const bias = memory.bias == nullptr ? nullptr : memory.bias + column;
    for (const TileRows& tile :
         tiles.subspan(static_cast<std::size_t>(2 * pair))
             .first(std::min<std::size_t>(2, tiles.size() - static_cast<std::size_t>(2 * pair)))) {
      for (const std::int32_t result : tile.results) {
        if (result >= 0)
          tile_products::round_row(sums, bias, columns,
                                   memory.results + result * memory.channels + column);
        sums += block_lanes;
      }
    }
  }
};

// Calls work(pair, block) for all, on LibTorch's threads: each has pairs of its own, or blocks
// where there are few pairs.
template <typename Work>
void side_by_side(std::int64_t pairs, std::int64_t blocks, const Work& work) {
  const bool by_pairs = pairs >= 4 * at::get_num_threads() || pairs >= blocks;
  at::parallel_for(0, by_pairs ? pairs : blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    const tile_products::Tiles tiles;
    for (auto pair = by_pairs ? begin : 0; pair < (by_pairs ? end : pairs); ++pair) {
      for (auto block = by_pairs ? 0 : begin; block < (by_pairs ? blocks : end); ++block)
        work(pair, block);
    }
  });
}

// From a whole field, as many taps at a time as are packed at once.
void compute_whole(std::span<const TileRows> tiles, std::span<const MetTap> taps,
                   const TileField& field, const PassMemory& memory, const TapPacker& packer) {
  const auto at_once =
      static_cast<std::size_t>(std::max<std::int64_t>(most_packed / memory.values_of_tap(), 1));
  const bool is_whole = at_once >= taps.size();
  AlignedValues<float> sums;
  for (std::size_t first = 0; first == 0 || first < taps.size(); first += at_once) {
    const auto packed =
        pack(taps.subspan(first, std::min(at_once, taps.size() - first)), memory, packer);
    const Products products{tiles, field, packed, memory};
    const auto pairs = products.pairs(), blocks = products.blocks();
    if (!is_whole && !sums) sums = uninitialized<float>(pairs * blocks * block_values);
    side_by_side(pairs, blocks, [&](std::int64_t pair, std::int64_t block) {
      alignas(64) std::array<float, block_values> own;
      float* const into =
          is_whole ? own.data() : sums.get() + (pair * blocks + block) * block_values;
      products.multiply(pair, block, into, first > 0);
      if (first + at_once >= taps.size()) products.finish(pair, block, into);
    });
  }
}

// Tiles whose field stays in a second-level cache beside the weights.
std::size_t tiles_of_window(const TileGrid& grid, const PassMemory& memory) {
  constexpr std::int64_t cached_values = 1 << 18;
  const auto positions =
      std::max(cached_values / (grid.phases() * memory.from.length), 4 * grid.overlap());
  return static_cast<std::size_t>(std::max<std::int64_t>(positions / block_lanes, 1) * 2);
}

std::vector<TileWindow> windows_of(const TileGrid& grid, std::span<const TileRows> tiles,
                                   std::size_t count) {
  std::vector<TileWindow> windows;
  std::int64_t rows = 0;
  for (std::size_t first = 0; first < tiles.size(); first += count) {
    const auto& last = tiles[std::min(first + count, tiles.size()) - 1];
    windows.push_back(grid.window_around(tiles[first].start, last.start + tile_lanes));
    rows = std::max(rows, windows.back().rows);
  }
  for (TileWindow& window : windows) window.rows = rows;  // so that all have the same shifts
  return windows;
}

// All taps' weights at once, and windows of the field that threads fill for themselves.
void compute_by_windows(const TileGrid& grid, const ResultPhase& phase, const PassMemory& memory,
                        std::span<const TileWindow> windows, std::size_t tiles_at_once,
                        const PackedTaps& packed) {
  at::parallel_for(0, narrow<std::int64_t>(windows.size()), 1, [&](auto begin, auto end) {
    const tile_products::Tiles tiles;
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const auto field = grid.fill(memory.from, windows[i]);
      const auto first = i * tiles_at_once;
      const Products products{
          std::span(phase.tiles)
              .subspan(first, std::min(tiles_at_once, phase.tiles.size() - first)),
          field, packed, memory};
      for (std::int64_t pair = 0; pair < products.pairs(); ++pair) {
        for (std::int64_t block = 0; block < products.blocks(); ++block) {
          alignas(64) std::array<float, block_values> sums;
          products.multiply(pair, block, sums.data(), false);
          products.finish(pair, block, sums.data());
        }
      }
    }
  });
}

}  // namespace

void compute_results(const TileGrid& grid, std::span<const ResultPhase> phases,
                     const PassMemory& memory, const TapsOfPhase& taps_of,
                     const TapPacker& packer) {
  const auto tiles_at_once = tiles_of_window(grid, memory);
  const auto windows = windows_of(grid, phases.front().tiles, tiles_at_once);
  const auto whole = grid.window_around(0, grid.rows() + tile_lanes);
  if (phases.size() == 1 && narrow<int>(windows.size()) >= 2 * at::get_num_threads()) {
    const auto taps = taps_of(phases.front().phase, windows.front());
    if (narrow<std::int64_t>(taps.size()) * memory.values_of_tap() <= most_packed)
      return compute_by_windows(grid, phases.front(), memory, windows, tiles_at_once,
                                pack(taps, memory, packer));
  }
  const auto field = grid.fill(memory.from, whole);
  for (const auto& [phase, tiles] : phases)
    compute_whole(tiles, taps_of(phase, whole), field, memory, packer);
}

}  // namespace kolo
