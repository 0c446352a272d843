// Gradients of weights by tiles: products of the transposed field of inputs and the output's
// gradient, over all positions.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/Parallel.h>

#include "kernels/tile_problem.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

// Gradients that no cache would keep until they are averaged.
constexpr std::int64_t least_streamed = 2 << 20;

// The field of the large side, a value of its vectors a row; `first` is where that of position 0
// begins.
struct Transposed {
  std::unique_ptr<BFloat16[]> memory;
  const BFloat16* first = nullptr;
  std::int64_t stride = 0;
};

Transposed transpose(const TileProblem& problem, const TileGrid& grid, const TileField& field) {
  const auto vector = problem.large_vector();
  const auto before = grid.rows_before(), channels = whole_units(problem.inputs(), tile_depth);
  const auto stretches = (before + grid.phases() * grid.rows() + grid.rows_after()) / tile_depth;
  Transposed result{.memory = uninitialized<BFloat16>(channels * stretches * tile_depth),
                    .stride = stretches * tile_depth};
  result.first = result.memory.get() + before;
  at::parallel_for(0, stretches, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) {
      tile_products::transpose(field.first + (i * tile_depth - before) * vector, vector, channels,
                               result.memory.get() + i * tile_depth, result.stride);
    }
  });
  return result;
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
                        const Transposed& transposed, std::span<const std::int64_t> stretches,
                        const PackedTiles& packed, bool is_added, float* gradients) {
  const auto inputs = problem.inputs(), outputs = problem.geometry().outputs;
  constexpr std::size_t few_stretches = 8;
  const auto count = narrow<std::int64_t>(taps.size());
  const auto of_outputs = (outputs + block_lanes - 1) / block_lanes;
  const auto blocks = (inputs + block_lanes - 1) / block_lanes * of_outputs;
  const bool is_by_taps = stretches.size() <= few_stretches;
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
          transposed.first + in * transposed.stride + shift / problem.large_vector();
      const auto rows = std::min(block_lanes, inputs - in);
      put_block({upper, rows > tile_lanes ? upper + tile_lanes * transposed.stride : nullptr,
                 transposed.stride, stretches},
                packed.at(out, outputs), is_streamed,
                {gradients + (tap * inputs + in) * outputs + out, outputs, is_added}, rows,
                std::min(block_lanes, outputs - out));
    }
  });
}

}  // namespace

// A stretch of positions after the other, whose values stay in a second-level cache.
void put_weight_gradients(const TileProblem& problem, const BFloat16* input,
                          const BFloat16* output_gradient, std::int64_t samples, bool is_added,
                          float* gradients) {
  const auto inputs = problem.geometry().inputs, outputs = problem.geometry().outputs;
  constexpr std::size_t most_stretches = 128;
  const auto grid = problem.large_grid(samples);
  const auto columns = whole_units(outputs, tile_lanes);
  const auto transposed =
      transpose(problem, grid, grid.fill(input, inputs, problem.large_vector()));
  const auto to = grid.with_results().fill(output_gradient, outputs, columns);
  const auto starts = grid.stretches(tile_depth);
  for (std::size_t first = 0; first < starts.size(); first += most_stretches) {
    const std::span stretches(starts.data() + first,
                              std::min(most_stretches, starts.size() - first));
    const auto count = narrow<std::int64_t>(stretches.size()), stride = count * tile_values;
    const auto packed = uninitialized<BFloat16>(columns / tile_lanes * stride);
    at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) {
        tile_products::pack(to.first + stretches[static_cast<std::size_t>(i)] * columns, columns,
                            columns, packed.get() + i * tile_values, stride);
      }
    });
    multiply_gradients(problem, problem.large_taps(grid), transposed, stretches,
                       {packed.get(), stride}, is_added || first > 0, gradients);
  }
}

}  // namespace kolo
