// Gradients of weights by tiles: products of the transposed field of inputs and the output's
// gradient, over all positions.
#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <ATen/Parallel.h>

#include "kernels/tile_problem.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

// Gradients that no cache would keep until they are averaged.
constexpr std::int64_t least_streamed = 2 << 20;

// A window of the large side, a value of its vectors a row.
struct Transposed {
  AlignedValues<BFloat16> memory;
  std::int64_t stride = 0;
};

// Some rows at a time, which stay in a cache until they are transposed.
Transposed transpose(const TileGrid& grid, const TileValues& input, std::int64_t channels,
                     const TileWindow& window) {
  constexpr std::int64_t stretches_at_once = 8;
  const auto stretches = divide_up(grid.phases() * window.rows, tile_depth);
  const auto overlap = (channels - 1) / input.length;  // of vectors of whole lines
  Transposed result;
  result.stride = (stretches | 1) * tile_depth;  // rows of a tile: in different sets of a cache
  result.memory = uninitialized<BFloat16>(channels * result.stride + tile_depth);
  at::parallel_for(0, stretches, stretches_at_once, [&](std::int64_t begin, std::int64_t end) {
    const auto room =
        uninitialized<BFloat16>((stretches_at_once * tile_depth + overlap + 1) * input.length);
    for (auto first = begin; first < end; first += stretches_at_once) {
      const auto last = std::min(first + stretches_at_once, end);
      const auto* rows =
          grid.take(input, window, first * tile_depth, last * tile_depth + overlap, room.get());
      for (auto i = first; i < last; ++i, rows += tile_depth * input.length)
        tile_products::transpose(rows, input.length, channels, result.memory.get() + i * tile_depth,
                                 result.stride);
    }
  });
  return result;
}

// Tiles of the output's gradient, a stretch of positions after the other.
AlignedValues<BFloat16> pack(const TileGrid& grid, const TileValues& gradient,
                             std::span<const std::int64_t> stretches) {
  const auto count = narrow<std::int64_t>(stretches.size()), stride = count * tile_values;
  const TileWindow window{.rows = stretches.back() + tile_depth};
  auto packed = uninitialized<BFloat16>(gradient.length / tile_lanes * stride);
  at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
    const auto room = uninitialized<BFloat16>(tile_depth * gradient.length);
    for (auto i = begin; i < end; ++i) {
      const auto first = stretches[static_cast<std::size_t>(i)];
      const auto* const rows = grid.take(gradient, window, first, first + tile_depth, room.get());
      tile_products::pack(rows, gradient.length, gradient.length, packed.get() + i * tile_values,
                          stride);
    }
  });
  return packed;
}

void put_block(const tile_products::Left& left, const tile_products::Right& right, bool is_streamed,
               const tile_products::Sums& into, std::int64_t rows, std::int64_t columns) {
  const bool is_whole = rows % tile_lanes == 0 && columns % tile_lanes == 0;
  if (is_whole && !is_streamed) return tile_products::multiply(left, right, into);
  alignas(64) std::array<float, block_lanes * block_lanes> sums;
  tile_products::multiply(left, right, {sums.data()});
  if (is_whole) return tile_products::stream(sums.data(), rows, columns, into.values, into.stride);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      float& value = into.values[row * into.stride + column];
      const auto sum = sums[static_cast<std::size_t>(row * block_lanes + column)];
      value = into.is_added ? value + sum : sum;
    }
  }
}

// Taps of one phase, which come one after the other, meet the same values; but few positions stay
// in a second-level cache together, and then gradients are written in the order of memory.
void multiply_gradients(const TileProblem& problem, const std::vector<MetTap>& taps,
                        const Transposed& transposed, std::span<const std::int64_t> columns,
                        const PackedTiles& packed, bool is_added, float* gradients) {
  const auto inputs = problem.inputs(), outputs = problem.geometry().outputs;
  constexpr std::size_t few_stretches = 8;
  const auto count = narrow<std::int64_t>(taps.size());
  const auto of_outputs = divide_up(outputs, block_lanes);
  const auto blocks = divide_up(inputs, block_lanes) * of_outputs;
  const bool is_by_taps = columns.size() <= few_stretches;
  const bool is_streamed =
      is_by_taps && !is_added && blocks * count * block_lanes * block_lanes >= least_streamed;
  at::parallel_for(0, blocks * count, 1, [&](std::int64_t begin, std::int64_t end) {
    const tile_products::Tiles tiles;
    for (auto i = begin; i < end; ++i) {
      const auto of_block = is_by_taps ? i % blocks : i / count;
      const auto in = of_block / of_outputs * block_lanes,
                 out = of_block % of_outputs * block_lanes;
      const auto& [tap, shift] =
          taps[static_cast<std::size_t>(is_by_taps ? i / blocks : i % count)];
      const auto* const upper =
          transposed.memory.get() + in * transposed.stride + shift / problem.large_vector();
      const auto rows = std::min(block_lanes, inputs - in);
      put_block({upper, rows > tile_lanes ? upper + tile_lanes * transposed.stride : nullptr,
                 transposed.stride, columns},
                packed.at(out, outputs), is_streamed,
                {gradients + (tap * inputs + in) * outputs + out, outputs, is_added}, rows,
                std::min(block_lanes, outputs - out));
    }
  });
}

// Counts stretches of positions whose values stay in a second-level cache, and whose windows have
// little in common with the next.
std::size_t stretches_at_once(const TileGrid& grid) {
  const auto positions = std::clamp<std::int64_t>(4 * grid.overlap(), 1024, 4096);
  return static_cast<std::size_t>(positions / tile_depth);
}

}  // namespace

void put_weight_gradients(const TileProblem& problem, const BFloat16* input,
                          const BFloat16* output_gradient, float* gradients) {
  const auto& geometry = problem.geometry();
  const auto grid = problem.large_grid(geometry.batch), of_results = grid.with_results();
  const TileValues from{input, geometry.inputs, problem.large_vector()};
  const TileValues to{output_gradient, geometry.outputs, whole_units(geometry.outputs, tile_lanes)};
  const auto starts = grid.stretches(tile_depth);
  const auto at_once = stretches_at_once(grid);
  for (std::size_t first = 0; first < starts.size(); first += at_once) {
    const std::span stretches(starts.data() + first, std::min(at_once, starts.size() - first));
    const auto window = grid.window_around(stretches.front(), stretches.back() + tile_depth);
    const auto transposed =
        transpose(grid, from, whole_units(problem.inputs(), tile_depth), window);
    std::vector<std::int64_t> columns;
    for (const auto start : stretches) columns.push_back(start - window.first);
    const auto packed = pack(of_results, to, stretches);
    const auto taps = problem.large_taps(grid, window);
    const auto values_of_tap = problem.inputs() * geometry.outputs;
    const auto values = geometry.taps() * geometry.inputs * geometry.outputs;
    if (first == 0 && narrow<std::int64_t>(taps.size()) * values_of_tap < values)
      std::fill_n(gradients, values, 0.F);  // of taps that fall on padding alone
    multiply_gradients(problem, taps, transposed, columns,
                       {packed.get(), narrow<std::int64_t>(stretches.size()) * tile_values},
                       first > 0, gradients);
  }
}

}  // namespace kolo
