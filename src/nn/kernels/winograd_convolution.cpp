#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/Parallel.h>

#include "kolo/base/checked.h"
#include "nn/kernels/convolution_kernel.h"
#include "nn/kernels/float32_products.h"
#include "nn/kernels/matrices.h"
#include "nn/kernels/winograd.h"

namespace kolo {

namespace {

using winograd::Algorithm;
using winograd::Collect;
using winograd::Places;
using winograd::Spread;

constexpr std::int64_t lanes = float32_products::lanes;

// Columns of a product that lie together, so that they fill whole lines of the caches.
constexpr auto panel = channels_of_block;

// Tiles that are transformed, multiplied and transformed back together: their coefficients stay in
// a cache, and the taps' coefficients, of which there are more, are read once for all of them.
constexpr std::int64_t most_tiles = 60;

std::unique_ptr<float[]> room_for(std::int64_t values) {
  return std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(values));
}

// Calls work(first, count) for panels of columns from `first` to `first + columns`.
template <typename Work>
void for_panels(std::int64_t first, std::int64_t columns, const Work& work) {
  for (std::int64_t at = first; at < first + columns; at += panel)
    work(at, std::min(panel, first + columns - at));
}

// Positions along all dimensions, the last one running fastest, and vectors of channels at them.
class Grid {
 public:
  Grid(std::vector<std::int64_t> size, std::int64_t channels)
      : size_(std::move(size)),
        positions_(checked_product<std::int64_t>(size_)),
        channels_(channels) {}

  // Pointers to the vectors of a box of `length` positions in each dimension, from `first` on;
  // `outside` where there is none.
  template <typename T>
  void box(T* data, std::int64_t sample, const std::vector<std::int64_t>& first,
           std::int64_t length, T* outside, std::vector<T*>& at) const {
    at.clear();
    add_lines(data + sample * positions_ * channels_, first, length, outside, 0, 0, true, at);
  }

  [[nodiscard]] const std::vector<std::int64_t>& size() const { return size_; }

 private:
  template <typename T>
  void add_lines(T* data, const std::vector<std::int64_t>& first, std::int64_t length, T* outside,
                 std::size_t dimension, std::int64_t position, bool is_inside,
                 std::vector<T*>& at) const {
    for (std::int64_t i = first[dimension]; i < first[dimension] + length; ++i) {
      const auto here = position * size_[dimension] + i;
      const bool inside = is_inside && i >= 0 && i < size_[dimension];
      if (dimension + 1 == size_.size()) {
        at.push_back(inside ? data + here * channels_ : outside);
      } else {
        add_lines(data, first, length, outside, dimension + 1, here, inside, at);
      }
    }
  }

  std::vector<std::int64_t> size_;
  std::int64_t positions_, channels_;
};

// A minimal algorithm, forward and its adjoints, of float32 coefficients. Each product of matrices
// is over the channels of all phases; its rows are tiles.
class WinogradConvolution final : public ConvolutionKernel {
 public:
  WinogradConvolution(const ConvolutionGeometry& geometry, Algorithm algorithm)
      : geometry_(geometry),
        algorithm_(algorithm),
        lengths_(winograd::lengths_of(algorithm)),
        dimensions_(narrow<int>(geometry.size.size())),
        input_(geometry.size, geometry.inputs),
        output_(geometry.output_size(), geometry.outputs),
        zeros_(static_cast<std::size_t>(std::max(geometry.inputs, geometry.outputs))) {
    for (const auto length : output_.size()) {
      tiles_of_.push_back((length + lengths_.outputs - 1) / lengths_.outputs);
      products_ *= lengths_.products;
      phases_ *= lengths_.stride;
      taps_ *= lengths_.taps;
    }
    tiles_ = geometry.batch * checked_product<std::int64_t>(tiles_of_);
  }

  void forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
               const torch::Tensor& output) override {
    const auto taps = taps_for_outputs(weight);
    const float* const bias_values = bias.defined() ? bias.data_ptr<float>() : nullptr;
    const auto inner = phases_ * geometry_.inputs;
    for_blocks([&](std::int64_t first, std::int64_t count, Room& room) {
      spread_inputs(input, 0, geometry_.inputs, first, count, room);
      for (std::int64_t product = 0; product < products_; ++product) {
        const float* const inputs = room.inputs.get() + product * count * inner;
        const float* const matrix = taps.get() + product * inner * geometry_.outputs;
        float* const outputs = room.outputs.get() + product * count * geometry_.outputs;
        for_panels(0, geometry_.outputs, [&](std::int64_t column, std::int64_t columns) {
          float32_products::multiply(count, columns, inner, {inputs, inner},
                                     matrix + column * inner, columns, outputs + column,
                                     geometry_.outputs, ProductResult::replaces);
        });
      }
      collect_outputs(output, bias_values, first, count, room);
    });
  }

  void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                      const torch::Tensor& input_gradient) override {
    const auto taps = taps_for_inputs(weight);
    // Where windows overlap, sums are added up in float32.
    const bool is_float32 = geometry_.type == torch::kFloat;
    const auto sums =
        is_float32 ? input_gradient.zero_() : torch::zeros_like(input_gradient, torch::kFloat);
    for_channels(geometry_.inputs, [&](std::int64_t channel, std::int64_t channels) {
      Room room(*this, channels);
      for_blocks_of_thread(0, tiles_, [&](std::int64_t first, std::int64_t count) {
        spread_output_gradients(output_gradient, first, count, room);
        multiply_for_inputs(taps.get(), channel, channels, count, room);
        collect_input_gradients(sums, channel, channels, first, count, room);
      });
    });
    if (!is_float32) input_gradient.copy_(sums);
  }

  void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                       const torch::Tensor& weight_gradient,
                       const torch::Tensor& bias_gradient) override {
    const bool is_in_place = is_taps_first(weight_gradient);
    const auto gradients =
        is_in_place ? weight_gradient : torch::empty({taps_, geometry_.inputs, geometry_.outputs});
    const auto coefficients =
        room_for(checked_multiply(products_ * phases_, geometry_.inputs * geometry_.outputs));
    for_channels(geometry_.inputs, [&](std::int64_t channel, std::int64_t channels) {
      Room room(*this, channels);
      for_blocks_of_thread(0, tiles_, [&](std::int64_t first, std::int64_t count) {
        spread_inputs(input, channel, channels, first, count, room);
        spread_output_gradients(output_gradient, first, count, room);
        multiply_for_taps(coefficients.get(), channel, channels, count, room,
                          first == 0 ? ProductResult::replaces : ProductResult::is_added);
      });
      collect_tap_gradients(coefficients.get(), channel, channels, gradients.data_ptr<float>());
    });
    if (!is_in_place) reorder(gradients.permute({2, 1, 0}), flat(weight_gradient));
    if (bias_gradient.defined()) {
      auto result = bias_gradient;
      const auto rows = output_gradient.numel() / geometry_.outputs;
      torch::sum_out(result,
                     output_gradient.as_strided({rows, geometry_.outputs}, {geometry_.outputs, 1}),
                     at::IntArrayRef({0}), /*keepdim=*/false, torch::kFloat);
    }
  }

 private:
  // What a thread needs for a block of tiles: [products, tiles, phases and channels] of inputs, and
  // [products, tiles, outputs].
  struct Room {
    std::unique_ptr<float[]> inputs, outputs;

    Room(const WinogradConvolution& kernel, std::int64_t channels)
        : inputs(room_for(checked_multiply(kernel.products_ * kernel.phases_,
                                           kernel.tiles_of_block() * channels))),
          outputs(room_for(checked_multiply(kernel.products_,
                                            kernel.tiles_of_block() * kernel.geometry_.outputs))) {}
  };

  [[nodiscard]] std::int64_t tiles_of_block() const { return std::min(most_tiles, tiles_); }

  // Calls work(first tile, count) for blocks of the tiles from `begin` to `end`.
  template <typename Work>
  static void for_blocks_of_thread(std::int64_t begin, std::int64_t end, const Work& work) {
    for (std::int64_t first = begin; first < end; first += most_tiles)
      work(first, std::min(most_tiles, end - first));
  }

  // Calls work(first tile, count, room), side by side on LibTorch's threads.
  template <typename Work>
  void for_blocks(const Work& work) const {
    at::parallel_for(0, tiles_, most_tiles, [&](std::int64_t begin, std::int64_t end) {
      Room room(*this, geometry_.inputs);
      for_blocks_of_thread(
          begin, end, [&](std::int64_t first, std::int64_t count) { work(first, count, room); });
    });
  }

  // A tile's sample, and its first output position.
  struct Tile {
    std::int64_t sample = 0;
    std::vector<std::int64_t> output, input;
  };

  [[nodiscard]] Tile tile(std::int64_t number) const {
    Tile result{.output = std::vector<std::int64_t>(tiles_of_.size()),
                .input = std::vector<std::int64_t>(tiles_of_.size())};
    for (std::size_t i = tiles_of_.size(); i-- > 0; number /= tiles_of_[i]) {
      result.output[i] = number % tiles_of_[i] * lengths_.outputs;
      result.input[i] = result.output[i] * lengths_.stride - geometry_.padding[i];
    }
    result.sample = number;
    return result;
  }

  [[nodiscard]] Places places(bool has_phases, std::int64_t product, std::int64_t phase) const {
    return {algorithm_, dimensions_, has_phases, product, phase};
  }

  // Calls work with a pointer to the tensor's values, of the geometry's type.
  template <typename Work>
  void with_values(const torch::Tensor& tensor, const Work& work) const {
    if (geometry_.type == torch::kFloat) {
      work(tensor.data_ptr<float>());
    } else {
      work(static_cast<BFloat16*>(tensor.data_ptr()));
    }
  }

  // What stands for padding.
  template <typename T>
  [[nodiscard]] const T* zeros() const {
    return static_cast<const T*>(static_cast<const void*>(zeros_.data()));
  }

  // Some channels' of so many tiles' inputs.
  void spread_inputs(const torch::Tensor& input, std::int64_t channel, std::int64_t channels,
                     std::int64_t first, std::int64_t count, Room& room) const {
    const auto row = phases_ * channels;
    const auto to = places(true, count * row, channels);
    with_values(input, [&]<typename T>(T* values) {
      std::vector<const T*> at;
      for (std::int64_t i = 0; i < count; ++i) {
        const auto [sample, unused, begin] = tile(first + i);
        input_.box<const T>(values + channel, sample, begin, lengths_.window, zeros<T>(), at);
        winograd::spread(algorithm_, Spread::inputs, at.data(), channels, to,
                         room.inputs.get() + i * row);
      }
    });
  }

  void spread_output_gradients(const torch::Tensor& gradient, std::int64_t first,
                               std::int64_t count, Room& room) const {
    const auto outputs = geometry_.outputs;
    const auto to = places(false, count * outputs, 0);
    with_values(gradient, [&]<typename T>(T* values) {
      std::vector<const T*> at;
      for (std::int64_t i = 0; i < count; ++i) {
        const auto [sample, begin, unused] = tile(first + i);
        output_.box<const T>(values, sample, begin, lengths_.outputs, zeros<T>(), at);
        winograd::spread(algorithm_, Spread::output_gradients, at.data(), outputs, to,
                         room.outputs.get() + i * outputs);
      }
    });
  }

  void collect_outputs(const torch::Tensor& output, const float* bias, std::int64_t first,
                       std::int64_t count, Room& room) const {
    const auto outputs = geometry_.outputs;
    const auto from = places(false, count * outputs, 0);
    with_values(output, [&]<typename T>(T* values) {
      std::vector<T*> at;
      for (std::int64_t i = 0; i < count; ++i) {
        const auto [sample, begin, unused] = tile(first + i);
        output_.box<T>(values, sample, begin, lengths_.outputs, nullptr, at);
        winograd::collect(algorithm_, Collect::outputs, room.outputs.get() + i * outputs, from,
                          outputs, bias, at.data());
      }
    });
  }

  void collect_input_gradients(const torch::Tensor& gradient, std::int64_t channel,
                               std::int64_t channels, std::int64_t first, std::int64_t count,
                               Room& room) const {
    const auto row = phases_ * channels;
    const auto from = places(true, count * row, channels);
    std::vector<float*> at;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto [sample, unused, begin] = tile(first + i);
      input_.box<float>(gradient.data_ptr<float>() + channel, sample, begin, lengths_.window,
                        nullptr, at);
      winograd::collect(algorithm_, Collect::input_gradients, room.inputs.get() + i * row, from,
                        channels, nullptr, at.data());
    }
  }

  // Coefficients of gradients of inputs from those of outputs.
  void multiply_for_inputs(const float* taps, std::int64_t channel, std::int64_t channels,
                           std::int64_t count, Room& room) const {
    const auto row = phases_ * channels, outputs = geometry_.outputs;
    for (std::int64_t product = 0; product < products_; ++product) {
      const float* const gradients = room.outputs.get() + product * count * outputs;
      for (std::int64_t phase = 0; phase < phases_; ++phase) {
        const float* const matrix = taps + (product * phases_ + phase) * geometry_.inputs * outputs;
        float* const result =
            room.inputs.get() + product * count * row + phase * channels - channel;
        for_panels(channel, channels, [&](std::int64_t column, std::int64_t columns) {
          float32_products::multiply(count, columns, outputs, {gradients, outputs},
                                     matrix + column * outputs, columns, result + column, row,
                                     ProductResult::replaces);
        });
      }
    }
  }

  // Coefficients of taps' gradients, [products, phases, inputs, outputs]; the inner dimension is
  // that of the tiles.
  void multiply_for_taps(float* taps, std::int64_t channel, std::int64_t channels,
                         std::int64_t count, Room& room, ProductResult result) const {
    const auto row = phases_ * channels, outputs = geometry_.outputs;
    for (std::int64_t product = 0; product < products_; ++product) {
      for (std::int64_t phase = 0; phase < phases_; ++phase) {
        const float* const inputs = room.inputs.get() + product * count * row + phase * channels;
        float* const matrix =
            taps + ((product * phases_ + phase) * geometry_.inputs + channel) * outputs;
        float32_products::multiply(channels, outputs, count, {inputs, 1, row},
                                   room.outputs.get() + product * count * outputs, outputs, matrix,
                                   outputs, result);
      }
    }
  }

  // To [taps, inputs, outputs].
  void collect_tap_gradients(const float* coefficients, std::int64_t channel, std::int64_t channels,
                             float* gradients) const {
    const auto matrix = geometry_.inputs * geometry_.outputs;
    const auto from = places(true, phases_ * matrix, matrix);
    std::vector<float*> at(static_cast<std::size_t>(taps_));
    for (std::int64_t input = channel; input < channel + channels; ++input) {
      for (std::int64_t tap = 0; tap < taps_; ++tap)
        at[static_cast<std::size_t>(tap)] = gradients + tap * matrix + input * geometry_.outputs;
      winograd::collect(algorithm_, Collect::tap_gradients,
                        coefficients + input * geometry_.outputs, from, geometry_.outputs, nullptr,
                        at.data());
    }
  }

  // [outputs, inputs, taps]: a view, because the taps lie in order in either memory.
  static torch::Tensor flat(const torch::Tensor& weight) { return weight.detach().flatten(2); }

  // Coefficients of taps as products with inputs take them: [products, panels, phases and inputs,
  // outputs of the panel].
  [[nodiscard]] std::unique_ptr<float[]> taps_for_outputs(const torch::Tensor& weight) const {
    auto values =
        is_taps_first(weight) ? weight : torch::empty({taps_, geometry_.inputs, geometry_.outputs});
    if (!is_taps_first(weight)) reorder(flat(weight), values.permute({2, 1, 0}));
    return spread_taps(values, geometry_.inputs, geometry_.outputs,
                       phases_ * geometry_.inputs * geometry_.outputs, geometry_.inputs, phases_);
  }

  // As products with gradients of outputs take them: [products, phases, panels, outputs, inputs of
  // the panel].
  [[nodiscard]] std::unique_ptr<float[]> taps_for_inputs(const torch::Tensor& weight) const {
    const auto values = torch::empty({taps_, geometry_.outputs, geometry_.inputs});
    reorder(flat(weight), values.permute({1, 2, 0}));
    return spread_taps(values, geometry_.outputs, geometry_.inputs,
                       phases_ * geometry_.inputs * geometry_.outputs, 0, 1);
  }

  // `values` are [taps, rows, columns]. Phases are `phase_rows` rows of a panel apart, or, where
  // that is 0, whole matrices; a panel has `phases` times `rows` rows.
  [[nodiscard]] std::unique_ptr<float[]> spread_taps(const torch::Tensor& values, std::int64_t rows,
                                                     std::int64_t columns, std::int64_t product,
                                                     std::int64_t phase_rows,
                                                     std::int64_t phases) const {
    auto result = room_for(checked_multiply(products_, product));
    at::parallel_for(0, rows, 8, [&](std::int64_t begin, std::int64_t end) {
      std::vector<const float*> at(static_cast<std::size_t>(taps_));
      for_panels(0, columns, [&](std::int64_t column, std::int64_t width) {
        const auto to = places(true, product, phase_rows > 0 ? phase_rows * width : rows * columns);
        for (std::int64_t row = begin; row < end; ++row) {
          for (std::int64_t tap = 0; tap < taps_; ++tap)
            at[static_cast<std::size_t>(tap)] =
                values.data_ptr<float>() + (tap * rows + row) * columns + column;
          winograd::spread(algorithm_, Spread::taps, at.data(), width, to,
                           result.get() + column * phases * rows + row * width);
        }
      });
    });
    return result;
  }

  ConvolutionGeometry geometry_;
  Algorithm algorithm_;
  winograd::Lengths lengths_;
  int dimensions_;
  Grid input_, output_;
  std::vector<float> zeros_;
  std::vector<std::int64_t> tiles_of_;
  std::int64_t tiles_ = 0, products_ = 1, phases_ = 1, taps_ = 1;
};

std::optional<Algorithm> algorithm_for(const ConvolutionGeometry& geometry) {
  const auto all = [](const std::vector<std::int64_t>& lengths, std::int64_t length) {
    return std::all_of(lengths.begin(), lengths.end(),
                       [&](std::int64_t each) { return each == length; });
  };
  for (const auto algorithm : {Algorithm::four_of_three_taps, Algorithm::two_of_four_taps}) {
    const auto lengths = winograd::lengths_of(algorithm);
    if (all(geometry.kernel, lengths.taps) && all(geometry.stride, lengths.stride))
      return algorithm;
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<ConvolutionKernel> make_winograd_convolution(const ConvolutionGeometry& geometry) {
  const auto algorithm = algorithm_for(geometry);
  const bool fits = geometry.size.size() >= 2 && geometry.inputs % lanes == 0 &&
                    geometry.outputs % lanes == 0 && geometry.type != torch::kHalf;
  if (!algorithm || !fits || !winograd::is_supported()) return nullptr;
  return std::make_unique<WinogradConvolution>(geometry, *algorithm);
}

}  // namespace kolo
