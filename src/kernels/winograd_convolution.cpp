#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/Parallel.h>

#include "base/aligned_values.h"
#include "kernels/convolution_kernel.h"
#include "kernels/products.h"
#include "kernels/vector_loops.h"
#include "kernels/winograd_tiles.h"
#include "kernels/zero_products.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

using winograd::Algorithm;
using winograd::Coefficients;
using winograd::Collect;
using winograd::Offsets;
using winograd::Range;
using winograd::Spread;

constexpr std::int64_t lanes = float32_products::lanes;

// Tiles that are transformed, multiplied and transformed back together, so that their coefficients
// stay in a cache; more where the coefficients are kept anyway.
constexpr std::int64_t most_tiles = 60, most_tiles_of_kept = 240;

// Bytes of coefficients of taps that a thread makes and uses up before it makes more: a third-level
// cache usually has more per core.
constexpr std::int64_t most_bytes_of_taps = 8 << 20;

// Calls work(range) for ranges of `length`, the last one perhaps shorter.
template <typename Work>
void for_ranges(Range all, std::int64_t length, const Work& work) {
  for (std::int64_t first = all.first; first < all.end(); first += length)
    work(Range{first, std::min(length, all.end() - first)});
}

// A minimal algorithm, forward and its adjoints. Each product of matrices is over the channels of
// all phases; its rows are tiles.
class WinogradConvolution final : public ConvolutionKernel {
 public:
  WinogradConvolution(const ConvolutionGeometry& geometry, Algorithm algorithm)
      : geometry_(geometry),
        algorithm_(algorithm),
        dimensions_(narrow<int>(geometry.size.size())),
        tiles_(geometry, algorithm) {
    const auto lengths = winograd::lengths_of(algorithm);
    for (int i = 0; i < dimensions_; ++i) {
      products_ *= lengths.products;
      phases_ *= lengths.stride;
      taps_ *= lengths.taps;
    }
    inputs_of_panel_ = std::max(lanes, channels_of_block / phases_);
  }

  void forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
               const torch::Tensor& output) override {
    const auto taps = by_taps(weight);
    const float* const bias_values = bias.defined() ? bias.data_ptr<float>() : nullptr;
    const Pass pass{.inner = phases_ * geometry_.inputs,
                    .channels = geometry_.outputs,
                    .panel = channels_of_block,
                    .columns_of_channel = 1,
                    .tiles_of_unit = 1};
    multiply_by_taps(
        pass,
        [&](Range tiles, Coefficients to) {
          tiles_.spread(Spread::inputs, input, {0, geometry_.inputs}, tiles, to);
        },
        [&](Range outputs, float* to) { spread_taps_to_outputs(taps, outputs, to); },
        [&](Coefficients from, Range outputs, Range tiles) {
          tiles_.collect(Collect::outputs, from, outputs, tiles, bias_values, output);
        });
    restore_zero_outputs(geometry_, input, bias_values, output);
  }

  void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                      const torch::Tensor& input_gradient) override {
    const auto taps = torch::empty({taps_, geometry_.outputs, geometry_.inputs});
    reorder(weight.detach().flatten(2), taps.permute({1, 2, 0}));
    // Sums are float32, as windows overlap.
    const bool is_float32 = geometry_.type == torch::kFloat;
    const auto sums =
        is_float32 ? input_gradient.zero_() : torch::zeros_like(input_gradient, torch::kFloat);
    const Pass pass{.inner = geometry_.outputs,
                    .channels = geometry_.inputs,
                    .panel = inputs_of_panel_,
                    .columns_of_channel = phases_,
                    .tiles_of_unit = tiles_.of_sample()};
    multiply_by_taps(
        pass,
        [&](Range tiles, Coefficients to) {
          tiles_.spread(Spread::output_gradients, output_gradient, {0, geometry_.outputs}, tiles,
                        to);
        },
        [&](Range inputs, float* to) { spread_taps_to_inputs(taps, inputs, to); },
        [&](Coefficients from, Range inputs, Range tiles) {
          tiles_.collect(Collect::input_gradients, from, inputs, tiles, nullptr, sums);
        });
    restore_zero_input_gradients(geometry_, output_gradient, sums);
    if (!is_float32) input_gradient.copy_(sums);
  }

  void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                       const torch::Tensor& weight_gradient) override {
    const auto gradients = room_by_taps(weight_gradient);
    const auto outputs = geometry_.outputs;
    const auto spread = [&](Range tiles, Coefficients to) {
      tiles_.spread(Spread::output_gradients, output_gradient, {0, geometry_.outputs}, tiles, to);
    };
    const Rows rows(*this, outputs, geometry_.inputs > inputs_of_panel_, spread);
    for_panels(geometry_.inputs, inputs_of_panel_, [&](Range inputs) {
      const auto row = phases_ * inputs.count;
      const auto coefficients = uninitialized<float>(checked_multiply(products_, row * outputs));
      const auto values =
          uninitialized<float>(checked_multiply(products_, rows.tiles_of_block() * row));
      rows.for_blocks({0, tiles_.count()}, [&](Range tiles, Coefficients of_outputs) {
        const Coefficients of_inputs{values.get(), tiles.count * row};
        tiles_.spread(Spread::inputs, input, inputs, tiles, of_inputs);
        for (std::int64_t product = 0; product < products_; ++product) {
          vector_loops().multiply(
              row, outputs, tiles.count, {of_inputs.data + product * of_inputs.product, 1, row},
              of_outputs.data + product * of_outputs.product, outputs,
              coefficients.get() + product * row * outputs, outputs,
              tiles.first == 0 ? ProductResult::replaces : ProductResult::is_added);
        }
      });
      collect_tap_gradients(coefficients.get(), inputs, gradients.data_ptr<float>());
    });
    restore_zeros(geometry_, input, output_gradient, gradients.data_ptr<float>());
    copy_from_taps(gradients, weight_gradient);
  }

 private:
  // Tiles' rows, of `length` coefficients, which are multiplied by one part of the taps after
  // another. They are kept, of all tiles, where there are several parts; else a block's are made
  // when it is its turn.
  class Rows {
   public:
    template <typename Work>
    Rows(const WinogradConvolution& kernel, std::int64_t length, bool are_kept, const Work& spread)
        : products_(kernel.products_), tiles_(kernel.tiles_.count()), length_(length) {
      if (!are_kept) {
        spread_ = spread;
        return;
      }
      kept_ = uninitialized<float>(checked_multiply(products_, checked_multiply(tiles_, length_)));
      at::parallel_for(0, tiles_, 8, [&](std::int64_t begin, std::int64_t end) {
        spread({begin, end - begin}, kept().from_row(begin, length_));
      });
    }

    [[nodiscard]] std::int64_t tiles_of_block() const {
      return std::min(tiles_, kept_ ? most_tiles_of_kept : most_tiles);
    }

    // Calls work(tiles, their rows). From any thread.
    template <typename Work>
    void for_blocks(Range all, const Work& work) const {
      AlignedValues<float> room;
      if (!kept_)
        room = uninitialized<float>(checked_multiply(products_, tiles_of_block() * length_));
      for_ranges(all, tiles_of_block(), [&](Range tiles) {
        if (kept_) return work(tiles, kept().from_row(tiles.first, length_));
        const Coefficients rows{room.get(), tiles.count * length_};
        spread_(tiles, rows);
        work(tiles, rows);
      });
    }

   private:
    [[nodiscard]] Coefficients kept() const { return {kept_.get(), tiles_ * length_}; }

    std::int64_t products_, tiles_, length_;
    std::function<void(Range, Coefficients)> spread_;
    AlignedValues<float> kept_;
  };

  // Product of tiles' rows, of `inner` coefficients, with taps, which gives rows of `channels`,
  // each of some columns. A `panel` of channels fills whole lines of the caches.
  struct Pass {
    std::int64_t inner, channels, panel, columns_of_channel;
    std::int64_t tiles_of_unit;  // threads share tiles by multiples of it
  };

  // spread(tiles, to) makes the rows, spread_taps(channels, to) the taps of a panel, as [products,
  // inner, columns], and collect(from, channels, tiles) takes the results.
  template <typename SpreadRows, typename SpreadTaps, typename CollectRows>
  void multiply_by_taps(const Pass& pass, const SpreadRows& spread, const SpreadTaps& spread_taps,
                        const CollectRows& collect) const {
    const auto taps_of_channel = products_ * pass.inner * pass.columns_of_channel;
    const auto most_taps = most_bytes_of_taps / narrow<std::int64_t>(sizeof(float));
    const auto block =
        std::max<std::int64_t>(most_taps / (taps_of_channel * pass.panel), 1) * pass.panel;
    const Rows rows(*this, pass.inner, block < pass.channels, spread);
    for_pieces(pass, block, [&](Range channels, Range tiles_of_unit) {
      const auto taps = uninitialized<float>(checked_multiply(taps_of_channel, channels.count));
      const auto at = [&](Range panel) {
        return taps.get() + (panel.first - channels.first) * taps_of_channel;
      };
      for_ranges(channels, pass.panel, [&](Range panel) { spread_taps(panel, at(panel)); });
      const auto results = uninitialized<float>(products_ * rows.tiles_of_block() * pass.panel *
                                                pass.columns_of_channel);
      rows.for_blocks(tiles_of_unit, [&](Range tiles, Coefficients of_tiles) {
        for_ranges(channels, pass.panel, [&](Range panel) {
          const auto columns = panel.count * pass.columns_of_channel;
          const Coefficients to{results.get(), tiles.count * columns};
          for (std::int64_t product = 0; product < products_; ++product) {
            vector_loops().multiply(tiles.count, columns, pass.inner,
                                    {of_tiles.data + product * of_tiles.product, pass.inner},
                                    at(panel) + product * pass.inner * columns, columns,
                                    to.data + product * to.product, columns,
                                    ProductResult::replaces);
          }
          collect(to, panel, tiles);
        });
      });
    });
  }

  // Calls work(channels, tiles) side by side on LibTorch's threads: for blocks of channels, and
  // where these are fewer than threads, for parts of the tiles.
  template <typename Work>
  void for_pieces(const Pass& pass, std::int64_t block, const Work& work) const {
    const auto blocks = divide_up(pass.channels, block);
    const auto most_pieces = tiles_.count() / pass.tiles_of_unit;
    const auto wanted = divide_up(at::get_num_threads(), blocks);
    const auto tiles = divide_up(most_pieces, std::min(wanted, most_pieces)) * pass.tiles_of_unit;
    const auto pieces = divide_up(tiles_.count(), tiles);
    at::parallel_for(0, blocks * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) {
        const auto channel = i / pieces * block, first = i % pieces * tiles;
        work(Range{channel, std::min(block, pass.channels - channel)},
             Range{first, std::min(tiles, tiles_.count() - first)});
      }
    });
  }

  [[nodiscard]] Offsets offsets(std::int64_t product, std::int64_t phase) const {
    return {algorithm_, dimensions_, true, product, phase};
  }

  // To [products, phases, inputs, outputs of the range].
  void spread_taps_to_outputs(const torch::Tensor& taps, Range outputs, float* to) const {
    const auto phase = geometry_.inputs * outputs.count;
    spread_taps(taps, geometry_.outputs, outputs, offsets(phases_ * phase, phase), outputs.count,
                to);
  }

  // Transforms [taps, outputs, inputs] to [products, outputs, phases, inputs of the range].
  void spread_taps_to_inputs(const torch::Tensor& taps, Range inputs, float* to) const {
    const auto row = phases_ * inputs.count;
    spread_taps(taps, geometry_.inputs, inputs, offsets(geometry_.outputs * row, inputs.count), row,
                to);
  }

  // Some columns of taps' matrices, each row of which goes `row` values after the one before it.
  void spread_taps(const torch::Tensor& taps, std::int64_t columns, Range some, const Offsets& to,
                   std::int64_t row, float* at) const {
    const auto size = geometry_.inputs * geometry_.outputs;
    std::vector<const float*> from(static_cast<std::size_t>(taps_));
    const float* first = taps.data_ptr<float>() + some.first;
    for (std::int64_t i = 0; i < size / columns; ++i, first += columns, at += row) {
      for (std::int64_t tap = 0; tap < taps_; ++tap)
        from[static_cast<std::size_t>(tap)] = first + tap * size;
      vector_loops().of_float.spread(algorithm_, Spread::taps, from.data(), some.count, to, at);
    }
  }

  // From [products, phases, inputs of the range, outputs], to [taps, inputs, outputs].
  void collect_tap_gradients(const float* coefficients, Range inputs, float* gradients) const {
    const auto outputs = geometry_.outputs, phase = inputs.count * outputs;
    const auto from = offsets(phases_ * phase, phase);
    std::vector<float*> at(static_cast<std::size_t>(taps_));
    for (std::int64_t i = 0; i < inputs.count; ++i) {
      for (std::int64_t tap = 0; tap < taps_; ++tap) {
        at[static_cast<std::size_t>(tap)] =
            gradients + (tap * geometry_.inputs + inputs.first + i) * outputs;
      }
      vector_loops().of_float.collect(algorithm_, Collect::tap_gradients,
                                      coefficients + i * outputs, from, outputs, nullptr,
                                      at.data());
    }
  }

  // Calls work(channels) side by side on LibTorch's threads.
  template <typename Work>
  static void for_panels(std::int64_t channels, std::int64_t panel, const Work& work) {
    at::parallel_for(0, divide_up(channels, panel), 1, [&](std::int64_t begin, std::int64_t end) {
      for_ranges({begin * panel, std::min(end * panel, channels) - begin * panel}, panel, work);
    });
  }

  ConvolutionGeometry geometry_;
  Algorithm algorithm_;
  int dimensions_;
  winograd::Tiles tiles_;
  std::int64_t products_ = 1, phases_ = 1, taps_ = 1, inputs_of_panel_ = 0;
};

std::optional<Algorithm> algorithm_for(const ConvolutionGeometry& geometry) {
  for (const auto algorithm : {Algorithm::four_of_three_taps, Algorithm::two_of_four_taps}) {
    const auto lengths = winograd::lengths_of(algorithm);
    if (are_all(geometry.kernel, lengths.taps) && are_all(geometry.stride, lengths.stride))
      return algorithm;
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<ConvolutionKernel> make_winograd_convolution(const ConvolutionGeometry& geometry) {
  const auto algorithm = algorithm_for(geometry);
  const bool fits = geometry.size.size() >= 2 && geometry.inputs % lanes == 0 &&
                    geometry.outputs % lanes == 0 && geometry.type != torch::kHalf;
  if (!algorithm || !fits || !has_vector_loops()) return nullptr;
  return std::make_unique<WinogradConvolution>(geometry, *algorithm);
}

}  // namespace kolo
