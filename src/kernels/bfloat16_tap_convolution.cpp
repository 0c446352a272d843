#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/Parallel.h>

#include "base/aligned_values.h"
#include "kernels/convolution_kernel.h"
#include "kernels/products.h"
#include "kernels/taps.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

using bfloat16_products::Pair;

// Vectors of channels in channels-last memory, [batch, positions, channels].
template <typename T>
struct Vectors {
  T* data = nullptr;
  std::int64_t positions = 0, channels = 0;

  // Collects the vectors at one end of a tap's connections, of all samples, from their channel
  // `first` on.
  template <std::int64_t Connection::*End>
  void of(const Tap& tap, std::int64_t batch, std::int64_t first, std::vector<T*>& rows) const {
    rows.clear();
    for (const Connection& connection : tap) {
      for (std::int64_t sample = 0; sample < batch; ++sample)
        rows.push_back(data + (sample * positions + connection.*End) * channels + first);
    }
  }
};

template <typename T>
Vectors<T> vectors_of(const torch::Tensor& tensor, std::int64_t positions, std::int64_t channels) {
  return {static_cast<T*>(tensor.data_ptr()), positions, channels};
}

// TapConvolution of bfloat16 values, whose weights are rounded as they are read, block by block.
// Channels are multiples of 32.
class BFloat16TapConvolution final : public KernelByTaps {
 public:
  explicit BFloat16TapConvolution(const ConvolutionGeometry& geometry) : KernelByTaps(geometry) {}

  void forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
               const torch::Tensor& output) override {
    const auto weights = by_taps(weight);
    const auto sums = torch::zeros({geometry_.batch * positions_out_, geometry_.outputs});
    add_products<&Connection::input, &Connection::output>(
        vectors_of<Pair>(input, positions_in_, geometry_.inputs / 2),
        vectors_of<float>(sums, positions_out_, geometry_.outputs),
        [&](std::size_t tap, std::int64_t first, std::int64_t count, Pair* packed) {
          bfloat16_products::pack(matrix(weights, tap) + first, geometry_.outputs, geometry_.inputs,
                                  count, packed, count);
        });
    if (bias.defined()) sums.add_(bias.detach());
    rows_of(output, geometry_.outputs).copy_(sums);
  }

  void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                      const torch::Tensor& input_gradient) override {
    const auto weights = by_taps(weight);
    const auto sums = torch::zeros({geometry_.batch * positions_in_, geometry_.inputs});
    add_products<&Connection::output, &Connection::input>(
        vectors_of<Pair>(output_gradient, positions_out_, geometry_.outputs / 2),
        vectors_of<float>(sums, positions_in_, geometry_.inputs),
        [&](std::size_t tap, std::int64_t first, std::int64_t count, Pair* packed) {
          bfloat16_products::pack_transposed(matrix(weights, tap) + first * geometry_.outputs,
                                             geometry_.outputs, geometry_.outputs, count, packed);
        });
    rows_of(input_gradient, geometry_.inputs).copy_(sums);
  }

  void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                       const torch::Tensor& weight_gradient) override {
    const auto gradients = room_by_taps(weight_gradient);
    const auto in = vectors_of<BFloat16>(input, positions_in_, geometry_.inputs);
    const auto out = vectors_of<BFloat16>(output_gradient, positions_out_, geometry_.outputs);
    at::parallel_for(0, narrow<std::int64_t>(taps_.size()), 1, [&](auto begin, auto end) {
      GradientRoom room((most_rows_ + 1) / 2, geometry_);
      for (auto tap = static_cast<std::size_t>(begin); tap < static_cast<std::size_t>(end); ++tap)
        set_gradient(taps_[tap], in, out, matrix(gradients, tap), room);
    });
    copy_from_taps(gradients, weight_gradient);
  }

 private:
  // Memory of a thread for the gradients of taps' matrices.
  struct GradientRoom {
    AlignedValues<Pair> of_inputs, of_outputs;
    std::vector<BFloat16*> inputs, outputs;
    std::vector<const Pair*> a;
    std::vector<float*> c;

    GradientRoom(std::int64_t pairs, const ConvolutionGeometry& geometry)
        : of_inputs(uninitialized<Pair>(checked_multiply(pairs, geometry.inputs))),
          of_outputs(uninitialized<Pair>(checked_multiply(pairs, geometry.outputs))) {}
  };

  // Columns of a tap's matrix that are packed at once: as many as stay in a second-level cache,
  // because memory is read faster in long stretches.
  static std::int64_t columns_of_block(std::int64_t pairs) {
    constexpr std::int64_t most_pairs = 1 << 16;
    return std::max(most_pairs / pairs / channels_of_block, std::int64_t{1}) * channels_of_block;
  }

  // Adds to the vectors at one end of each tap the ones at the other end times the tap's matrix, of
  // which pack(tap, first column, columns, room) packs a block.
  template <std::int64_t Connection::*From, std::int64_t Connection::*To, typename Pack>
  void add_products(const Vectors<Pair>& from, const Vectors<float>& to, const Pack& pack) const {
    for_channels(to.channels, [&](std::int64_t begin, std::int64_t channels) {
      const auto block = columns_of_block(from.channels);
      const auto packed = uninitialized<Pair>(checked_multiply(from.channels, block));
      std::vector<Pair*> sources;
      std::vector<float*> sums;
      for (auto first = begin; first < begin + channels; first += block) {
        const auto count = std::min(block, begin + channels - first);
        for (std::size_t tap = 0; tap < taps_.size(); ++tap) {
          if (taps_[tap].empty()) continue;
          from.template of<From>(taps_[tap], geometry_.batch, 0, sources);
          to.template of<To>(taps_[tap], geometry_.batch, first, sums);
          pack(tap, first, count, packed.get());
          bfloat16_products::multiply(narrow<std::int64_t>(sums.size()), count, from.channels,
                                      {sources.data()}, packed.get(), sums.data(),
                                      ProductResult::is_added);
        }
      }
    });
  }

  // The inner dimension is that of the tap's connections.
  void set_gradient(const Tap& tap, const Vectors<BFloat16>& in, const Vectors<BFloat16>& out,
                    float* gradient, GradientRoom& room) const {
    const auto inputs = geometry_.inputs, outputs = geometry_.outputs;
    if (tap.empty()) {
      std::fill_n(gradient, inputs * outputs, 0.F);
      return;
    }
    in.of<&Connection::input>(tap, geometry_.batch, 0, room.inputs);
    out.of<&Connection::output>(tap, geometry_.batch, 0, room.outputs);
    const auto inner = narrow<std::int64_t>(room.inputs.size()), pairs = (inner + 1) / 2;
    bfloat16_products::pack(room.inputs.data(), inner, inputs, room.of_inputs.get());
    bfloat16_products::pack(room.outputs.data(), inner, outputs, room.of_outputs.get());
    room.a.clear();
    room.c.clear();
    for (std::int64_t input = 0; input < inputs; ++input) {
      room.a.push_back(room.of_inputs.get() + input);
      room.c.push_back(gradient + input * outputs);
    }
    bfloat16_products::multiply(
        inputs, outputs, pairs, {room.a.data(), inputs}, room.of_outputs.get(), room.c.data(),
        is_streamed(gradient) ? ProductResult::is_streamed : ProductResult::replaces);
  }

  // Gradients that no cache would keep until they are averaged.
  [[nodiscard]] bool is_streamed(const float* gradient) const {
    constexpr std::int64_t least = 2 << 20;
    return narrow<std::int64_t>(taps_.size()) * geometry_.inputs * geometry_.outputs >= least &&
           std::bit_cast<std::uintptr_t>(gradient) % stream_alignment == 0;
  }
};

}  // namespace

std::unique_ptr<ConvolutionKernel> make_bfloat16_tap_convolution(
    const ConvolutionGeometry& geometry) {
  const bool fits = geometry.inputs % (2 * bfloat16_products::lanes) == 0 &&
                    geometry.outputs % (2 * bfloat16_products::lanes) == 0;
  return fits && bfloat16_products::are_supported()
             ? std::make_unique<BFloat16TapConvolution>(geometry)
             : nullptr;
}

}  // namespace kolo
