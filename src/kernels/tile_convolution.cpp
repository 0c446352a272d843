#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <ATen/Parallel.h>

#include "kernels/convolution_kernel.h"
#include "kernels/tile_grid.h"
#include "kernels/tile_products.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

std::int64_t whole(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

template <typename T>
std::unique_ptr<T[]> room_for(std::int64_t values) {
  return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(values));
}

// A tap that a pass adds up: its weights, and how far away its values are in the field.
struct MetTap {
  std::int64_t tap = 0, shift = 0;
};

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
  explicit TileConvolution(const ConvolutionGeometry& geometry)
      : geometry_(geometry),
        axes_(tile_axes_of(geometry)),
        large_axes_(axes_),
        has_whole_lines_(axes_.back().kernel * geometry.inputs <= depth),
        inputs_(geometry.inputs),
        vector_(whole(inputs_, depth)) {
    if (has_whole_lines_) {
      large_axes_.back() = {.large = axes_.back().small, .small = axes_.back().small};
      inputs_ *= axes_.back().kernel;
      vector_ = axes_.back().stride * geometry.inputs;
    }
    const auto large = large_grid(geometry.batch);
    forward_ = {large.tiles({}), met_taps(large)};
    const auto small = TileGrid::of_small(axes_, geometry.batch);
    const Digits strides = {axes_[0].stride, axes_[1].stride, axes_[2].stride};
    for (Digits phase{}; phase[0] < strides[0]; next(phase, strides)) {
      auto& pass = backward_.emplace_back();
      pass.tiles = small.tiles(phase);
      each_tap(axes_, [&](std::int64_t tap, const Digits& at) {
        for (std::size_t i = 0; i < at.size(); ++i)
          if (axes_[i].phase_of(at[i]) != phase[i]) return;
        pass.taps.push_back({tap, small.shift_of(axes_, at) * whole(geometry.outputs, depth)});
      });
    }
  }

  void forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
               const torch::Tensor& output) override {
    const auto weights = by_taps(weight);
    const auto* const taps = weights.data_ptr<float>();
    const auto field =
        large_grid(geometry_.batch).fill(values_of(input), geometry_.inputs, vector_);
    const PassMemory memory{.field = field.first,
                            .stride = vector_,
                            .chunks = whole(inputs_, depth) / depth,
                            .results = values_of(output),
                            .channels = geometry_.outputs,
                            .bias = bias.defined() ? bias.data_ptr<float>() : nullptr};
    run(forward_, memory,
        [&](std::int64_t tap, std::int64_t first, BFloat16* packed, std::int64_t stride) {
          pack_inputs(taps + tap * inputs_ * geometry_.outputs, first, packed, stride);
        });
  }

  void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                      const torch::Tensor& input_gradient) override {
    const auto weights = by_taps(weight);
    const auto* const taps = weights.data_ptr<float>();
    const auto channels = whole(geometry_.outputs, depth);
    const auto field = TileGrid::of_small(axes_, geometry_.batch)
                           .fill(values_of(output_gradient), geometry_.outputs, channels);
    const PassMemory memory{.field = field.first,
                            .stride = channels,
                            .chunks = channels / depth,
                            .results = values_of(input_gradient),
                            .channels = geometry_.inputs};
    for (const PhasePass& pass : backward_) {
      run(pass, memory,
          [&](std::int64_t tap, std::int64_t first, BFloat16* packed, std::int64_t stride) {
            pack_outputs(taps + tap * geometry_.inputs * geometry_.outputs, first, packed, stride);
          });
    }
  }

  void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                       const torch::Tensor& weight_gradient) override {
    const auto gradients = room_by_taps(weight_gradient);
    const auto met = narrow<std::int64_t>(forward_.taps.size());
    if (met * inputs_ * geometry_.outputs < gradients.numel()) gradients.zero_();
    constexpr std::int64_t rows_at_once = 4096;
    const auto samples =
        std::clamp<std::int64_t>(rows_at_once / large_grid(1).rows(), 1, geometry_.batch);
    const auto of_input = input.numel() / geometry_.batch;
    const auto of_output = output_gradient.numel() / geometry_.batch;
    for (std::int64_t first = 0; first < geometry_.batch; first += samples) {
      add_gradients(
          values_of(input) + first * of_input, values_of(output_gradient) + first * of_output,
          std::min(samples, geometry_.batch - first), first > 0, gradients.data_ptr<float>());
    }
    copy_from_taps(gradients, weight_gradient);
  }

 private:
  static constexpr auto lanes = tile_products::lanes, depth = tile_products::depth;
  static constexpr auto block = tile_products::block;
  static constexpr auto values_of_tile = tile_products::values_of_tile;

  // Tiles of the right-hand factor: those of 16 columns lie together, `stride` values from the next
  // columns'.
  struct PackedTiles {
    const BFloat16* tiles = nullptr;
    std::int64_t stride = 0;

    // Of 32 columns from a multiple of 32 on, or of 16, if no more are left.
    [[nodiscard]] tile_products::Right at(std::int64_t column, std::int64_t columns) const {
      const auto* const first = tiles + column / lanes * stride;
      return {first, columns - column > lanes ? first + stride : nullptr};
    }
  };

  // The field of the large side, a channel a row; `first` is where that of position 0 begins.
  struct Transposed {
    std::unique_ptr<BFloat16[]> memory;
    const BFloat16* first = nullptr;
    std::int64_t stride = 0;
  };

  static BFloat16* values_of(const torch::Tensor& tensor) {
    return static_cast<BFloat16*>(tensor.data_ptr());
  }

  static void next(Digits& digits, const Digits& lengths) {
    if (++digits[2] < lengths[2]) return;
    digits[2] = 0;
    if (++digits[1] < lengths[1]) return;
    digits[1] = 0;
    ++digits[0];
  }

  // Taps that don't fall on padding everywhere.
  template <typename Work>
  static void each_tap(const TileAxes& axes, const Work& work) {
    const Digits kernel = {axes[0].kernel, axes[1].kernel, axes[2].kernel};
    std::int64_t tap = 0;
    for (Digits at{}; at[0] < kernel[0]; next(at, kernel), ++tap)
      if (axes[0].is_met(at[0]) && axes[1].is_met(at[1]) && axes[2].is_met(at[2])) work(tap, at);
  }

  [[nodiscard]] TileGrid large_grid(std::int64_t batch) const {
    return has_whole_lines_ ? TileGrid::of_large_lines(axes_, batch)
                            : TileGrid::of_large(axes_, batch);
  }

  // By phases of the large side, and in each from the first position to the last.
  [[nodiscard]] std::vector<MetTap> met_taps(const TileGrid& large) const {
    std::vector<MetTap> taps;
    each_tap(large_axes_, [&](std::int64_t tap, const Digits& at) {
      taps.push_back({tap, large.shift_of(large_axes_, at) * vector_});
    });
    std::ranges::sort(taps, {}, &MetTap::shift);
    return taps;
  }

  // Packs 32 inputs from `first` on, for all outputs.
  void pack_inputs(const float* weights, std::int64_t first, BFloat16* packed,
                   std::int64_t stride) const {
    const auto columns = whole(geometry_.outputs, lanes);
    const auto rows = std::min(depth, inputs_ - first);
    const float* from = weights + first * geometry_.outputs;
    auto from_stride = geometry_.outputs;
    std::vector<float> room;
    if (rows < depth || columns > geometry_.outputs) {
      room.resize(static_cast<std::size_t>(depth * columns));
      for (std::int64_t row = 0; row < rows; ++row)
        std::copy_n(from + row * geometry_.outputs, geometry_.outputs, room.data() + row * columns);
      from = room.data();
      from_stride = columns;
    }
    tile_products::pack(from, from_stride, columns, packed, stride);
  }

  // Packs 32 outputs from `first` on, for all inputs.
  void pack_outputs(const float* weights, std::int64_t first, BFloat16* packed,
                    std::int64_t stride) const {
    const auto values = std::min(depth, geometry_.outputs - first);
    std::array<float, lanes * depth> room{};
    for (std::int64_t input = 0; input < geometry_.inputs; input += lanes, packed += stride) {
      const float* from = weights + input * geometry_.outputs + first;
      const auto rows = std::min(lanes, geometry_.inputs - input);
      if (rows == lanes && values == depth) {
        tile_products::pack_transposed(from, geometry_.outputs, packed);
        continue;
      }
      room.fill(0);
      for (std::int64_t row = 0; row < rows; ++row)
        std::copy_n(from + row * geometry_.outputs, values, room.data() + row * depth);
      tile_products::pack_transposed(room.data(), depth, packed);
    }
  }

  // Adds up the products of a phase. `pack(tap, first, room, stride)` packs a tap's weights of the
  // 32 channels of the field from the first on, for all results.
  template <typename Pack>
  static void run(const PhasePass& pass, const PassMemory& memory, const Pack& pack) {
    constexpr std::int64_t most_values = 1 << 19;  // packed at once
    const auto columns = whole(memory.channels, lanes);
    const auto values_of_tap = memory.chunks * depth * columns;
    const auto taps = narrow<std::int64_t>(pass.taps.size());
    const auto at_once =
        std::clamp<std::int64_t>(taps, 1, std::max<std::int64_t>(most_values / values_of_tap, 1));
    const auto packed = room_for<BFloat16>(at_once * values_of_tap);
    const auto pairs = (narrow<std::int64_t>(pass.tiles.size()) + 1) / 2;
    const auto blocks = (columns + block - 1) / block;
    const bool is_whole = at_once >= taps;
    const auto sums = room_for<float>(is_whole ? 0 : pairs * blocks * block * block);
    for (std::int64_t first = 0; first == 0 || first < taps; first += at_once) {
      const std::span met(pass.taps.data() + first,
                          static_cast<std::size_t>(std::min(at_once, taps - first)));
      const auto stride = narrow<std::int64_t>(met.size()) * memory.chunks * values_of_tile;
      pack_taps(met, memory.chunks, packed.get(), stride, pack);
      std::vector<std::int64_t> shifts;
      for (const MetTap& tap : met) shifts.push_back(tap.shift);
      side_by_side(pairs, blocks, [&](std::int64_t pair, std::int64_t column) {
        alignas(64) std::array<float, block * block> own;
        float* const into =
            is_whole ? own.data() : sums.get() + (pair * blocks + column) * block * block;
        const auto at = [&](std::int64_t tile) {
          return tile < narrow<std::int64_t>(pass.tiles.size())
                     ? memory.field +
                           pass.tiles[static_cast<std::size_t>(tile)].start * memory.stride
                     : nullptr;
        };
        tile_products::multiply(
            {at(2 * pair), at(2 * pair + 1), memory.stride, shifts, memory.chunks},
            PackedTiles{packed.get(), stride}.at(column * block, columns),
            {into, block, first > 0});
        if (first + at_once >= taps) finish_block(pass, memory, pair, column * block, into);
      });
    }
  }

  template <typename Pack>
  static void pack_taps(std::span<const MetTap> taps, std::int64_t chunks, BFloat16* packed,
                        std::int64_t stride, const Pack& pack) {
    at::parallel_for(0, narrow<std::int64_t>(taps.size()) * chunks, 1, [&](auto begin, auto end) {
      for (auto i = begin; i < end; ++i)
        pack(taps[static_cast<std::size_t>(i / chunks)].tap, i % chunks * depth,
             packed + i * values_of_tile, stride);
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
    const auto columns = std::min(block, memory.channels - column);
    const float* const bias = memory.bias == nullptr ? nullptr : memory.bias + column;
    const auto end = std::min(pass.tiles.size(), static_cast<std::size_t>(2 * pair + 2));
    for (auto tile = static_cast<std::size_t>(2 * pair); tile < end; ++tile) {
      for (const std::int32_t result : pass.tiles[tile].results) {
        if (result >= 0)
          tile_products::round_row(sums, bias, columns,
                                   memory.results + result * memory.channels + column);
        sums += block;
      }
    }
  }

  // Adds some samples' gradients of all weights, or sets them: products of the transposed field of
  // inputs and the output's gradient, over all positions, a stretch of these after the other.
  void add_gradients(const BFloat16* input, const BFloat16* output_gradient, std::int64_t samples,
                     bool is_added, float* gradients) const {
    constexpr std::size_t most_stretches = 128;
    const auto grid = large_grid(samples);
    const auto columns = whole(geometry_.outputs, lanes);
    const auto transposed = transpose(grid, grid.fill(input, geometry_.inputs, vector_));
    const auto to = grid.with_results().fill(output_gradient, geometry_.outputs, columns);
    const auto starts = grid.stretches(depth);
    for (std::size_t first = 0; first < starts.size(); first += most_stretches) {
      const std::span stretches(starts.data() + first,
                                std::min(most_stretches, starts.size() - first));
      const auto count = narrow<std::int64_t>(stretches.size()), stride = count * values_of_tile;
      const auto packed = room_for<BFloat16>(columns / lanes * stride);
      at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = begin; i < end; ++i) {
          tile_products::pack(to.first + stretches[static_cast<std::size_t>(i)] * columns, columns,
                              columns, packed.get() + i * values_of_tile, stride);
        }
      });
      multiply_gradients(met_taps(grid), transposed, stretches, {packed.get(), stride},
                         is_added || first > 0, gradients);
    }
  }

  [[nodiscard]] Transposed transpose(const TileGrid& grid, const TileField& field) const {
    const auto before = grid.rows_before(), channels = whole(inputs_, depth);
    const auto stretches = (before + grid.phases() * grid.rows() + grid.rows_after()) / depth;
    Transposed result{.memory = room_for<BFloat16>(channels * stretches * depth),
                      .stride = stretches * depth};
    result.first = result.memory.get() + before;
    at::parallel_for(0, stretches, 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) {
        tile_products::transpose(field.first + (i * depth - before) * vector_, vector_, channels,
                                 result.memory.get() + i * depth, result.stride);
      }
    });
    return result;
  }

  // Taps of one phase, which come one after the other, meet the same values.
  void multiply_gradients(const std::vector<MetTap>& taps, const Transposed& transposed,
                          std::span<const std::int64_t> stretches, const PackedTiles& packed,
                          bool is_added, float* gradients) const {
    const auto count = narrow<std::int64_t>(taps.size());
    const auto of_outputs = (geometry_.outputs + block - 1) / block;
    const auto blocks = (inputs_ + block - 1) / block * of_outputs;
    at::parallel_for(0, blocks * count, 1, [&](std::int64_t begin, std::int64_t end) {
      const tile_products::Tiles tiles;
      for (auto i = begin; i < end; ++i) {
        const auto in = i / count / of_outputs * block, out = i / count % of_outputs * block;
        const auto& [tap, shift] = taps[static_cast<std::size_t>(i % count)];
        const auto* const upper = transposed.first + in * transposed.stride + shift / vector_;
        const auto rows = std::min(block, inputs_ - in);
        add_gradient_block({upper, rows > lanes ? upper + lanes * transposed.stride : nullptr,
                            transposed.stride, stretches},
                           packed.at(out, geometry_.outputs), is_added,
                           gradients + (tap * inputs_ + in) * geometry_.outputs + out, rows,
                           std::min(block, geometry_.outputs - out));
      }
    });
  }

  void add_gradient_block(const tile_products::Left& left, const tile_products::Right& right,
                          bool is_added, float* into, std::int64_t rows,
                          std::int64_t columns) const {
    if (rows % lanes == 0 && columns % lanes == 0)
      return tile_products::multiply(left, right, {into, geometry_.outputs, is_added});
    alignas(64) std::array<float, block * block> sums;
    tile_products::multiply(left, right, {sums.data()});
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        float& value = into[row * geometry_.outputs + column];
        const auto sum = sums[static_cast<std::size_t>(row * block + column)];
        value = is_added ? value + sum : sum;
      }
    }
  }

  ConvolutionGeometry geometry_;
  TileAxes axes_, large_axes_;  // of the large side's grid
  bool has_whole_lines_;        // of the large side (TileGrid::of_large_lines)
  std::int64_t inputs_;         // rows of a tap's weights there
  std::int64_t vector_;         // values from one vector there to the next
  PhasePass forward_;
  std::vector<PhasePass> backward_;
};

}  // namespace

std::unique_ptr<ConvolutionKernel> make_tile_convolution(const ConvolutionGeometry& geometry) {
  if (geometry.type != torch::kBFloat16 || !tile_products::are_supported()) return nullptr;
  for (std::size_t i = 0; i < geometry.kernel.size(); ++i)
    if (geometry.padding[i] >= geometry.kernel[i]) return nullptr;
  return std::make_unique<TileConvolution>(geometry);
}

}  // namespace kolo
