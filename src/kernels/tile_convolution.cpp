#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include <ATen/Parallel.h>

#include "kernels/convolution_kernel.h"
#include "kernels/tile_problem.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

// Results of one phase: products of all tiles' vectors and the taps' matrices.
struct PhasePass {
  std::vector<TileRows> tiles;
  std::vector<MetTap> taps;
};

// Values that a pass reads, vectors of `chunks` tiles that begin `stride` values apart; and rows of
// `channels` results that it writes.
struct PassMemory {
  const BFloat16* field = nullptr;
  std::int64_t stride = 0, chunks = 0;
  BFloat16* results = nullptr;
  std::int64_t channels = 0;
  const float* bias = nullptr;
};

// Products by the processor's tiles of bfloat16: all taps of 16 positions and 16 channels are added
// up in one tile of sums. The field is copied once to a grid (tile_grid.h); weights are rounded and
// packed as they are read, as many taps at a time as stay in a second-level cache.
class TileConvolution final : public ConvolutionKernel {
 public:
  explicit TileConvolution(const ConvolutionGeometry& geometry) : problem_(geometry) {
    const auto large = problem_.large_grid(geometry.batch);
    forward_ = {large.tiles({}), problem_.large_taps(large)};
    const auto small = problem_.small_grid();
    for (const Digits& phase : problem_.phases())
      backward_.push_back({small.tiles(phase), problem_.small_taps(small, phase)});
  }

  void forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
               const torch::Tensor& output) override {
    const auto weights = by_taps(weight);
    const auto vector = problem_.large_vector();
    const auto field =
        problem_.large_grid(geometry().batch).fill(values_of(input), geometry().inputs, vector);
    const PassMemory memory{.field = field.first,
                            .stride = vector,
                            .chunks = whole_units(problem_.inputs(), tile_depth) / tile_depth,
                            .results = values_of(output),
                            .channels = geometry().outputs,
                            .bias = bias.defined() ? bias.data_ptr<float>() : nullptr};
    run(forward_, memory, memory.chunks, [&](const PackedTap& to, std::int64_t chunk) {
      pack_inputs(weights.data_ptr<float>(), to, chunk);
    });
  }

  void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                      const torch::Tensor& input_gradient) override {
    const auto weights = by_taps(weight);
    const auto vector = problem_.small_vector();
    const auto field =
        problem_.small_grid().fill(values_of(output_gradient), geometry().outputs, vector);
    const PassMemory memory{.field = field.first,
                            .stride = vector,
                            .chunks = vector / tile_depth,
                            .results = values_of(input_gradient),
                            .channels = geometry().inputs};
    const auto columns = whole_units(geometry().inputs, tile_lanes) / tile_lanes;
    for (const PhasePass& pass : backward_) {
      run(pass, memory, columns, [&](const PackedTap& to, std::int64_t column) {
        pack_outputs(weights.data_ptr<float>(), to, column);
      });
    }
  }

  void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                       const torch::Tensor& weight_gradient) override {
    constexpr std::int64_t rows_at_once = 4096;
    const auto gradients = room_by_taps(weight_gradient);
    const auto batch = geometry().batch;
    const auto met = narrow<std::int64_t>(forward_.taps.size());
    if (met * problem_.inputs() * geometry().outputs < gradients.numel()) gradients.zero_();
    const auto samples =
        std::clamp<std::int64_t>(rows_at_once / problem_.large_grid(1).rows(), 1, batch);
    for (std::int64_t first = 0; first < batch; first += samples) {
      put_weight_gradients(problem_, values_of(input) + first * (input.numel() / batch),
                           values_of(output_gradient) + first * (output_gradient.numel() / batch),
                           std::min(samples, batch - first), first > 0,
                           gradients.data_ptr<float>());
    }
    copy_from_taps(gradients, weight_gradient);
  }

 private:
  // A tap whose weights are packed, and its first tile; those of the next 16 columns lie `stride`
  // values later.
  struct PackedTap {
    std::int64_t tap = 0;
    BFloat16* tiles = nullptr;
    std::int64_t stride = 0;
  };

  static BFloat16* values_of(const torch::Tensor& tensor) {
    return static_cast<BFloat16*>(tensor.data_ptr());
  }

  [[nodiscard]] const ConvolutionGeometry& geometry() const { return problem_.geometry(); }

  // Packs a tap's 32 inputs from a multiple of 32 on, for all outputs.
  void pack_inputs(const float* weights, const PackedTap& to, std::int64_t chunk) const {
    const auto outputs = geometry().outputs, columns = whole_units(outputs, tile_lanes);
    const auto rows = std::min(tile_depth, problem_.inputs() - chunk * tile_depth);
    const float* from = weights + (to.tap * problem_.inputs() + chunk * tile_depth) * outputs;
    std::vector<float> room;
    if (rows < tile_depth || columns > outputs) {
      room.resize(static_cast<std::size_t>(tile_depth * columns));
      for (std::int64_t row = 0; row < rows; ++row)
        std::copy_n(from + row * outputs, outputs, room.data() + row * columns);
      from = room.data();
    }
    tile_products::pack(from, columns, columns, to.tiles + chunk * tile_values, to.stride);
  }

  // Packs a tap's 16 inputs from a multiple of 16 on, for all outputs.
  void pack_outputs(const float* weights, const PackedTap& to, std::int64_t column) const {
    const auto inputs = geometry().inputs, outputs = geometry().outputs;
    const auto rows = std::min(tile_lanes, inputs - column * tile_lanes);
    const float* from = weights + (to.tap * inputs + column * tile_lanes) * outputs;
    auto* packed = to.tiles + column * to.stride;
    std::array<float, tile_lanes * tile_depth> room;
    for (std::int64_t first = 0; first < outputs; first += tile_depth, from += tile_depth) {
      const auto values = std::min(tile_depth, outputs - first);
      const bool is_whole = rows == tile_lanes && values == tile_depth;
      if (!is_whole) {
        room.fill(0);
        for (std::int64_t row = 0; row < rows; ++row)
          std::copy_n(from + row * outputs, values, room.data() + row * tile_depth);
      }
      tile_products::pack_transposed(is_whole ? from : room.data(), is_whole ? outputs : tile_depth,
                                     packed);
      packed += tile_values;
    }
  }

  // Adds up the products of a phase. `pack(tap, part, room, stride)` packs one of `parts` of a
  // tap's weights.
  template <typename Pack>
  static void run(const PhasePass& pass, const PassMemory& memory, std::int64_t parts,
                  const Pack& pack) {
    constexpr std::int64_t most_values = 1 << 19;  // packed at once
    const auto columns = whole_units(memory.channels, tile_lanes);
    const auto values_of_tap = memory.chunks * tile_depth * columns;
    const auto taps = narrow<std::int64_t>(pass.taps.size());
    const auto at_once =
        std::clamp<std::int64_t>(taps, 1, std::max<std::int64_t>(most_values / values_of_tap, 1));
    const auto packed = uninitialized<BFloat16>(at_once * values_of_tap);
    const auto pairs = (narrow<std::int64_t>(pass.tiles.size()) + 1) / 2;
    const auto blocks = (columns + block_lanes - 1) / block_lanes;
    const bool is_whole = at_once >= taps;
    const auto sums =
        uninitialized<float>(is_whole ? 0 : pairs * blocks * block_lanes * block_lanes);
    for (std::int64_t first = 0; first == 0 || first < taps; first += at_once) {
      const std::span met(pass.taps.data() + first,
                          static_cast<std::size_t>(std::min(at_once, taps - first)));
      const auto stride = narrow<std::int64_t>(met.size()) * memory.chunks * tile_values;
      pack_taps(met, parts, {0, packed.get(), stride}, memory.chunks * tile_values, pack);
      std::vector<std::int64_t> shifts;
      for (const MetTap& tap : met) shifts.push_back(tap.shift);
      side_by_side(pairs, blocks, [&](std::int64_t pair, std::int64_t column) {
        alignas(64) std::array<float, block_lanes * block_lanes> own;
        float* const into = is_whole
                                ? own.data()
                                : sums.get() + (pair * blocks + column) * block_lanes * block_lanes;
        const auto at = [&](std::int64_t tile) {
          return tile < narrow<std::int64_t>(pass.tiles.size())
                     ? memory.field +
                           pass.tiles[static_cast<std::size_t>(tile)].start * memory.stride
                     : nullptr;
        };
        tile_products::multiply(
            {at(2 * pair), at(2 * pair + 1), memory.stride, shifts, memory.chunks},
            PackedTiles{packed.get(), stride}.at(column * block_lanes, columns),
            {into, block_lanes, first > 0});
        if (first + at_once >= taps) finish_block(pass, memory, pair, column * block_lanes, into);
      });
    }
  }

  template <typename Pack>
  static void pack_taps(std::span<const MetTap> taps, std::int64_t parts, const PackedTap& first,
                        std::int64_t values_of_tap, const Pack& pack) {
    at::parallel_for(0, narrow<std::int64_t>(taps.size()) * parts, 1, [&](auto begin, auto end) {
      for (auto i = begin; i < end; ++i)
        pack({taps[static_cast<std::size_t>(i / parts)].tap,
              first.tiles + i / parts * values_of_tap, first.stride},
             i % parts);
    });
  }

  // Calls work(pair, column) for all, on LibTorch's threads: each has pairs of its own, or columns
  // where there are few pairs.
  template <typename Work>
  static void side_by_side(std::int64_t pairs, std::int64_t columns, const Work& work) {
    const bool by_pairs = pairs >= 4 * at::get_num_threads() || pairs >= columns;
    at::parallel_for(0, by_pairs ? pairs : columns, 1, [&](std::int64_t begin, std::int64_t end) {
      const tile_products::Tiles tiles;
      for (auto pair = by_pairs ? begin : 0; pair < (by_pairs ? end : pairs); ++pair) {
        for (auto column = by_pairs ? 0 : begin; column < (by_pairs ? columns : end); ++column)
          work(pair, column);
      }
    });
  }

  static void finish_block(const PhasePass& pass, const PassMemory& memory, std::int64_t pair,
                           std::int64_t column, const float* sums) {
    const auto columns = std::min(block_lanes, memory.channels - column);
    const float* const bias = memory.bias == nullptr ? nullptr : memory.bias + column;
    const auto end = std::min(pass.tiles.size(), static_cast<std::size_t>(2 * pair + 2));
    for (auto tile = static_cast<std::size_t>(2 * pair); tile < end; ++tile) {
      for (const std::int32_t result : pass.tiles[tile].results) {
        if (result >= 0)
          tile_products::round_row(sums, bias, columns,
                                   memory.results + result * memory.channels + column);
        sums += block_lanes;
      }
    }
  }

  TileProblem problem_;
  PhasePass forward_;
  std::vector<PhasePass> backward_;
};

}  // namespace

std::unique_ptr<ConvolutionKernel> make_tile_convolution(const ConvolutionGeometry& geometry) {
  if (geometry.type != torch::kBFloat16 || !tile_products::are_supported()) return nullptr;
  for (std::size_t i = 0; i < geometry.kernel.size(); ++i)
    if (geometry.padding[i] >= geometry.kernel[i]) return nullptr;
  constexpr std::int64_t most_rows = std::numeric_limits<std::int32_t>::max();  // TileRows::results
  for (const auto& size : {geometry.size, geometry.output_size()})
    if (checked_multiply(geometry.batch, checked_product<std::int64_t>(size)) > most_rows)
      return nullptr;
  return std::make_unique<TileConvolution>(geometry);
}

}  // namespace kolo
