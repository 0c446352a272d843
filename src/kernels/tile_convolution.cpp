#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
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

// A tap that a pass adds up: its weights, and its rows' distance on the grid.
struct MetTap {
  std::int64_t tap = 0, shift = 0;
};

// Results of one phase: products of all tiles' rows and the taps' matrices.
struct PhasePass {
  std::vector<TileRows> tiles;
  std::vector<MetTap> taps;
};

// Values, [rows, channels], that a pass reads from the grid or writes.
struct PassMemory {
  const BFloat16* field = nullptr;
  std::int64_t field_channels = 0;  // whole tiles
  BFloat16* results = nullptr;
  std::int64_t result_channels = 0;
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
        large_(TileGrid::of_large(axes_, geometry.batch)),
        small_(TileGrid::of_small(axes_, geometry.batch)) {
    forward_.tiles = large_.tiles({});
    forward_.taps = met_taps(large_);
    const Digits strides = {axes_[0].stride, axes_[1].stride, axes_[2].stride};
    for (Digits phase{}; phase[0] < strides[0]; next(phase, strides)) {
      auto& pass = backward_.emplace_back();
      pass.tiles = small_.tiles(phase);
      each_tap([&](std::int64_t tap, const Digits& at) {
        for (std::size_t i = 0; i < at.size(); ++i)
          if (axes_[i].phase_of(at[i]) != phase[i]) return;
        pass.taps.push_back({tap, small_.shift_of(axes_, at)});
      });
    }
  }

  void forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
               const torch::Tensor& output) override {
    const auto weights = by_taps(weight);
    const auto channels = whole(geometry_.inputs, depth);
    const auto field = large_.fill(values_of(input), geometry_.inputs, channels);
    const PassMemory memory{field.first, channels, values_of(output), geometry_.outputs,
                            bias.defined() ? bias.data_ptr<float>() : nullptr};
    run(forward_, memory, [&](std::int64_t tap, std::int64_t first, std::int64_t columns,
                              BFloat16* packed, std::int64_t stride) {
      pack_inputs(matrix(weights, tap), first, columns, packed, stride);
    });
  }

  void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                      const torch::Tensor& input_gradient) override {
    const auto weights = by_taps(weight);
    const auto channels = whole(geometry_.outputs, depth);
    const auto field = small_.fill(values_of(output_gradient), geometry_.outputs, channels);
    const PassMemory memory{field.first, channels, values_of(input_gradient), geometry_.inputs,
                            nullptr};
    for (const PhasePass& pass : backward_) {
      run(pass, memory, [&](std::int64_t tap, std::int64_t first, std::int64_t columns,
                            BFloat16* packed, std::int64_t stride) {
        pack_outputs(matrix(weights, tap), first, columns, packed, stride);
      });
    }
  }

  void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                       const torch::Tensor& weight_gradient) override {
    const auto gradients = room_by_taps(weight_gradient);
    if (forward_.taps.size() < static_cast<std::size_t>(gradients.numel() / geometry_.inputs / geometry_.outputs))
      gradients.zero_();
    constexpr std::int64_t rows_at_once = 4096;
    const auto rows_of_sample = large_.rows() / geometry_.batch;
    const auto samples = std::clamp<std::int64_t>(rows_at_once / rows_of_sample, 1, geometry_.batch);
    for (std::int64_t first = 0; first < geometry_.batch; first += samples) {
      const auto count = std::min(samples, geometry_.batch - first);
      const auto of_input = geometry_.inputs * checked_product<std::int64_t>(geometry_.size);
      const auto of_output =
          geometry_.outputs * checked_product<std::int64_t>(geometry_.output_size());
      add_gradients(values_of(input) + first * of_input,
                    values_of(output_gradient) + first * of_output, count, first > 0,
                    gradients.data_ptr<float>());
    }
    copy_from_taps(gradients, weight_gradient);
  }

 private:
  static constexpr auto lanes = tile_products::lanes, depth = tile_products::depth;
  static constexpr auto block = tile_products::block;
  static constexpr auto values_of_tile = tile_products::values_of_tile;

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
  void each_tap(const Work& work) const {
    const Digits kernel = {axes_[0].kernel, axes_[1].kernel, axes_[2].kernel};
    std::int64_t tap = 0;
    for (Digits at{}; at[0] < kernel[0]; next(at, kernel), ++tap)
      if (axes_[0].is_met(at[0]) && axes_[1].is_met(at[1]) && axes_[2].is_met(at[2]))
        work(tap, at);
  }

  // By phases, and in each from the first position to the last.
  [[nodiscard]] std::vector<MetTap> met_taps(const TileGrid& grid) const {
    std::vector<MetTap> taps;
    each_tap([&](std::int64_t tap, const Digits& at) {
      taps.push_back({tap, grid.shift_of(axes_, at)});
    });
    std::ranges::sort(taps, {}, &MetTap::shift);
    return taps;
  }

  // A tap's inputs x outputs matrix.
  [[nodiscard]] const float* matrix(const torch::Tensor& weights, std::int64_t tap) const {
    return weights.data_ptr<float>() + tap * geometry_.inputs * geometry_.outputs;
  }

  // Packs 32 inputs from `first` on, for all outputs.
  void pack_inputs(const float* weights, std::int64_t first, std::int64_t columns,
                   BFloat16* packed, std::int64_t stride) const {
    const auto rows = std::min(depth, geometry_.inputs - first);
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
  void pack_outputs(const float* weights, std::int64_t first, std::int64_t columns,
                    BFloat16* packed, std::int64_t stride) const {
    const auto values = std::min(depth, geometry_.outputs - first);
    std::array<float, lanes * depth> room{};
    for (std::int64_t input = 0; input < columns; input += lanes, packed += stride) {
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

  // Adds up the products of a phase. `pack(tap, first, columns, room, stride)` packs 32 channels of
  // the field from the first on, a tile for each 16 columns.
  template <typename Pack>
  void run(const PhasePass& pass, const PassMemory& memory, const Pack& pack) const {
    const auto columns = whole(memory.result_channels, block);
    const auto chunks = memory.field_channels / depth;
    constexpr std::int64_t most_values = 1 << 19;  // packed at once
    const auto taps = narrow<std::int64_t>(pass.taps.size());
    const auto at_once =
        std::clamp<std::int64_t>(most_values / (memory.field_channels * columns), 1,
                                 std::max<std::int64_t>(taps, 1));
    const auto packed = room_for<BFloat16>(at_once * memory.field_channels * columns);
    const auto pairs = (narrow<std::int64_t>(pass.tiles.size()) + 1) / 2;
    const auto blocks = columns / block;
    const bool is_whole = at_once >= taps;
    const auto sums = room_for<float>(is_whole ? 1 : pairs * blocks * block * block);
    for (std::int64_t first = 0; first == 0 || first < taps; first += at_once) {
      const auto count = std::min(at_once, taps - first);
      const auto stride = count * chunks * values_of_tile;
      at::parallel_for(0, count * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = begin; i < end; ++i) {
          pack(pass.taps[static_cast<std::size_t>(first + i / chunks)].tap, i % chunks * depth,
               whole(memory.result_channels, lanes), packed.get() + i * values_of_tile, stride);
        }
      });
      std::vector<std::int64_t> shifts;
      for (auto tap = first; tap < first + count; ++tap)
        shifts.push_back(pass.taps[static_cast<std::size_t>(tap)].shift * memory.field_channels);
      const auto add = [&](std::int64_t pair, std::int64_t column) {
        alignas(64) std::array<float, block * block> own;
        float* const into =
            is_whole ? own.data() : sums.get() + (pair * blocks + column) * block * block;
        add_block(pass, memory, pair, shifts, chunks, packed.get() + column * 2 * stride, stride,
                  {into, block, first > 0});
        if (first + count >= taps) finish_block(pass, memory, pair, column * block, into);
      };
      side_by_side(pairs, blocks, add);
    }
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

  static void add_block(const PhasePass& pass, const PassMemory& memory, std::int64_t pair,
                        const std::vector<std::int64_t>& shifts, std::int64_t chunks,
                        const BFloat16* packed, std::int64_t packed_stride,
                        const tile_products::Sums& sums) {
    const auto at = [&](std::size_t tile) {
      return tile < pass.tiles.size()
                 ? memory.field + pass.tiles[tile].start * memory.field_channels
                 : nullptr;
    };
    const auto upper = static_cast<std::size_t>(2 * pair);
    tile_products::multiply(
        {at(upper), at(upper + 1), memory.field_channels, shifts, chunks}, packed, packed_stride,
        sums);
  }

  static void finish_block(const PhasePass& pass, const PassMemory& memory, std::int64_t pair,
                           std::int64_t column, const float* sums) {
    const auto columns = std::min(block, memory.result_channels - column);
    const float* const bias = memory.bias == nullptr ? nullptr : memory.bias + column;
    const auto end = std::min(pass.tiles.size(), static_cast<std::size_t>(2 * pair + 2));
    for (auto tile = static_cast<std::size_t>(2 * pair); tile < end; ++tile) {
      for (const std::int32_t result : pass.tiles[tile].results) {
        if (result >= 0)
          tile_products::round_row(sums, bias, columns,
                                   memory.results + result * memory.result_channels + column);
        sums += block;
      }
    }
  }

  // Adds some samples' gradients of all weights, or sets them: products of the transposed field of
  // inputs and the output's gradient, over all positions.
  void add_gradients(const BFloat16* input, const BFloat16* output_gradient, std::int64_t samples,
                     bool is_added, float* gradients) const {
    const auto grid = TileGrid::of_large(axes_, samples);
    const auto results = grid.with_results();
    const auto inputs = whole(geometry_.inputs, block), outputs = whole(geometry_.outputs, block);
    const auto from = grid.fill(input, geometry_.inputs, inputs);
    const auto to = results.fill(output_gradient, geometry_.outputs, outputs);
    const auto transposed = transpose(grid, from, inputs);
    const auto starts = grid.stretches(depth);
    constexpr std::size_t most_stretches = 128;
    for (std::size_t first = 0; first < starts.size(); first += most_stretches) {
      const auto count = std::min(most_stretches, starts.size() - first);
      const std::span stretches(starts.data() + first, count);
      const auto stride = narrow<std::int64_t>(count) * values_of_tile;
      const auto packed = room_for<BFloat16>(outputs / lanes * stride);
      at::parallel_for(0, narrow<std::int64_t>(count), 1, [&](auto begin, auto end) {
        for (auto i = begin; i < end; ++i) {
          tile_products::pack(to.first + stretches[static_cast<std::size_t>(i)] * outputs, outputs,
                              outputs, packed.get() + i * values_of_tile, stride);
        }
      });
      multiply_gradients(grid, transposed, stretches, {packed.get(), stride},
                         is_added || first > 0, gradients);
    }
  }

  // Rows of the grid's positions, one a channel; `first` is that of the first channel's position 0.
  struct Transposed {
    std::unique_ptr<BFloat16[]> memory;
    const BFloat16* first = nullptr;
    std::int64_t stride = 0;
  };
  struct Packed {
    const BFloat16* tiles = nullptr;
    std::int64_t stride = 0;
  };

  static Transposed transpose(const TileGrid& grid, const TileField& field,
                              std::int64_t channels) {
    const auto lead = grid.rows_before();
    const auto stretches = (lead + grid.phases() * grid.rows() + grid.rows_after()) / depth;
    Transposed result;
    result.stride = stretches * depth;
    result.memory = room_for<BFloat16>(channels * result.stride);
    result.first = result.memory.get() + lead;
    at::parallel_for(0, stretches, 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) {
        tile_products::transpose(field.first + (i * depth - lead) * channels, channels, channels,
                                 result.memory.get() + i * depth, result.stride);
      }
    });
    return result;
  }

  void multiply_gradients(const TileGrid& grid, const Transposed& transposed,
                          std::span<const std::int64_t> stretches, const Packed& packed,
                          bool is_added, float* gradients) const {
    const auto taps = met_taps(grid);
    const auto out_blocks = whole(geometry_.outputs, block) / block;
    const auto blocks = whole(geometry_.inputs, block) / block * out_blocks;
    const auto count = narrow<std::int64_t>(taps.size());
    // Taps of one phase, which come one after the other, meet the same values.
    at::parallel_for(0, blocks * count, 1, [&](std::int64_t begin, std::int64_t end) {
      const tile_products::Tiles tiles;
      for (auto i = begin; i < end; ++i) {
        const auto in = i / count / out_blocks * block, out = i / count % out_blocks * block;
        const auto& [tap, shift] = taps[static_cast<std::size_t>(i % count)];
        const auto* const upper = transposed.first + in * transposed.stride + shift;
        add_gradient_block(
            {upper, upper + lanes * transposed.stride, transposed.stride, stretches},
            {packed.tiles + out / lanes * packed.stride, packed.stride}, is_added,
            gradients + (tap * geometry_.inputs + in) * geometry_.outputs + out,
            std::min(block, geometry_.inputs - in), std::min(block, geometry_.outputs - out));
      }
    });
  }

  void add_gradient_block(const tile_products::Left& left, const Packed& right, bool is_added,
                          float* into, std::int64_t rows, std::int64_t columns) const {
    if (rows == block && columns == block) {
      tile_products::multiply(left, right.tiles, right.stride,
                              {into, geometry_.outputs, is_added});
      return;
    }
    alignas(64) std::array<float, block * block> sums;
    tile_products::multiply(left, right.tiles, right.stride, {sums.data()});
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        float& value = into[row * geometry_.outputs + column];
        const auto sum = sums[static_cast<std::size_t>(row * block + column)];
        value = is_added ? value + sum : sum;
      }
    }
  }

  ConvolutionGeometry geometry_;
  TileAxes axes_;
  TileGrid large_, small_;
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
