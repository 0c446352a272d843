#include <algorithm>
#include <memory>

#include <ATen/Parallel.h>

#include "base/aligned_values.h"
#include "kernels/convolution_kernel.h"
#include "kernels/products.h"
#include "kernels/taps.h"
#include "kolo/base/checked.h"

namespace kolo {

TapPositions::TapPositions(const ConvolutionGeometry& geometry, std::int64_t tap) {
  const auto output_size = geometry.output_size();
  auto dimension = along_.size();
  for (auto i = output_size.size(); i-- > 0; tap /= geometry.kernel[i]) {
    const auto stride = geometry.stride[i], size = geometry.size[i];
    const auto shift = tap % geometry.kernel[i] - geometry.padding[i];
    const auto first = shift < 0 ? divide_up(-shift, stride) : 0;
    const auto end = shift < size ? std::min(output_size[i], (size - 1 - shift) / stride + 1) : 0;
    along_[--dimension] = {first, end, stride, shift, size, output_size[i]};
  }
}

KernelByTaps::KernelByTaps(const ConvolutionGeometry& geometry)
    : geometry_(geometry),
      positions_in_(geometry.positions()),
      positions_out_(geometry.output_positions()) {
  for (std::int64_t tap = 0; tap < geometry.taps(); ++tap) {
    auto& found = taps_.emplace_back();
    TapPositions(geometry, tap).while_wanted([&](const Connection& connection) {
      found.push_back(connection);
      return true;
    });
    most_rows_ = std::max(most_rows_, geometry.batch * std::ssize(found));
  }
}

namespace {

// Vectors of channels in channels-last memory, [batch, positions, stride], or of some of them.
struct Field {
  float* data = nullptr;
  std::int64_t positions = 0;
  std::int64_t stride = 0;    // from one position to the next
  std::int64_t channels = 0;  // those meant

  [[nodiscard]] float* at(std::int64_t sample, std::int64_t position) const {
    return data + (sample * positions + position) * stride;
  }
  [[nodiscard]] Field of(std::int64_t first, std::int64_t count) const {
    return {data + first, positions, stride, count};
  }
};

// Values from one gathered row to the next. Rows a power of 2 apart would share a few places of the
// caches, and drive each other out while a product takes them.
constexpr std::int64_t stride_of_row(std::int64_t channels) {
  constexpr std::int64_t gap = 16;
  return channels + gap;
}

// The field's vectors at one end of a tap's connections, all samples', one below the other,
// stride_of_row() apart.
template <std::int64_t Connection::*End>
void gather(const Field& field, std::int64_t batch, const Tap& tap, float* rows) {
  for (const Connection& connection : tap) {
    for (std::int64_t sample = 0; sample < batch; ++sample, rows += stride_of_row(field.channels))
      std::copy_n(field.at(sample, connection.*End), field.channels, rows);
  }
}

// Adds dense rows, in gather()'s order, to the field.
template <std::int64_t Connection::*End>
void scatter(const float* rows, std::int64_t batch, const Tap& tap, const Field& field) {
  for (const Connection& connection : tap) {
    for (std::int64_t sample = 0; sample < batch; ++sample, rows += field.channels) {
      float* const into = field.at(sample, connection.*End);
      for (std::int64_t channel = 0; channel < field.channels; ++channel)
        into[channel] += rows[channel];
    }
  }
}

// A matrix product for every tap of the kernel, over the samples and the positions it connects.
// With few positions many taps fall on padding (7 of 8 in a 4x4x4 kernel that makes 1x1x1 of
// 2x2x2), and weights are most of what is moved. Here every weight that counts is read once, where
// it lies if its taps are first in memory.
class TapConvolution final : public KernelByTaps {
 public:
  explicit TapConvolution(const ConvolutionGeometry& geometry) : KernelByTaps(geometry) {}

  void forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
               const torch::Tensor& output) override {
    const auto weights = by_taps(weight);
    rows_of(output, geometry_.outputs).zero_();
    add_products<&Connection::input, &Connection::output>(
        input_field(input), output_field(output),
        [&](std::size_t tap, Columns columns, float* room) {
          return columns_of(weights, tap, columns, room);
        });
    if (bias.defined()) rows_of(output, geometry_.outputs).add_(bias.detach());
  }

  void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                      const torch::Tensor& input_gradient) override {
    const auto weights = by_taps(weight);
    rows_of(input_gradient, geometry_.inputs).zero_();
    add_products<&Connection::output, &Connection::input>(
        output_field(output_gradient), input_field(input_gradient),
        [&](std::size_t tap, Columns columns, float*) {
          return Matrix{matrix(weights, tap) + columns.first * geometry_.outputs, geometry_.outputs,
                        true};
        });
  }

  void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                       const torch::Tensor& weight_gradient) override {
    const auto weights = room_by_taps(weight_gradient);
    const auto in = input_field(input), out = output_field(output_gradient);
    at::parallel_for(0, narrow<std::int64_t>(taps_.size()), 1, [&](auto begin, auto end) {
      const auto from = rows(stride_of_row(geometry_.inputs)),
                 to = rows(stride_of_row(geometry_.outputs));
      for (auto tap = static_cast<std::size_t>(begin); tap < static_cast<std::size_t>(end); ++tap)
        weight_of_tap(tap, in, out, from.get(), to.get(), matrix(weights, tap));
    });
    copy_from_taps(weights, weight_gradient);
  }

 private:
  // Columns of a tap's matrix that are multiplied at once.
  struct Columns {
    std::int64_t first, count;
  };
  static constexpr std::int64_t columns_of_block = 128;

  [[nodiscard]] Field input_field(const torch::Tensor& input) const {
    return {input.data_ptr<float>(), positions_in_, geometry_.inputs, geometry_.inputs};
  }
  [[nodiscard]] Field output_field(const torch::Tensor& output) const {
    return {output.data_ptr<float>(), positions_out_, geometry_.outputs, geometry_.outputs};
  }
  // Room for the rows of any tap, so many values apart.
  [[nodiscard]] AlignedValues<float> rows(std::int64_t stride) const {
    return uninitialized<float>(checked_multiply(most_rows_, stride));
  }
  [[nodiscard]] std::int64_t rows_of_tap(std::size_t tap) const {
    return geometry_.batch * std::ssize(taps_[tap]);
  }

  // Some columns, where they lie or copied to `room`: a product with many rows takes them more than
  // once, and then a copy pays, whose rows are not a power of 2 apart.
  [[nodiscard]] Matrix columns_of(const torch::Tensor& weights, std::size_t tap, Columns columns,
                                  float* room) const {
    constexpr std::int64_t least_rows_of_copy = 32;
    const float* from = matrix(weights, tap) + columns.first;
    if (rows_of_tap(tap) < least_rows_of_copy) return {from, geometry_.outputs};
    float* to = room;
    for (std::int64_t row = 0; row < geometry_.inputs;
         ++row, from += geometry_.outputs, to += columns.count)
      std::copy_n(from, columns.count, to);
    return {room, columns.count};
  }

  // Adds the products of one field's vectors and the taps' matrices to the other field.
  // `matrix_of(tap, columns, room)`: the columns that make some channels; it may use the room.
  template <std::int64_t Connection::*From, std::int64_t Connection::*To, typename MatrixOf>
  void add_products(const Field& from, const Field& to, const MatrixOf& matrix_of) const {
    for_channels(to.channels, [&](std::int64_t begin, std::int64_t channels) {
      const auto taken = rows(stride_of_row(from.channels)), made = rows(columns_of_block);
      const auto room = uninitialized<float>(checked_multiply(from.channels, columns_of_block));
      for (std::size_t tap = 0; tap < taps_.size(); ++tap) {
        if (taps_[tap].empty()) continue;
        gather<From>(from, geometry_.batch, taps_[tap], taken.get());
        for (std::int64_t done = 0; done < channels; done += columns_of_block) {
          const Columns columns{begin + done, std::min(columns_of_block, channels - done)};
          multiply(rows_of_tap(tap), columns.count, from.channels,
                   {taken.get(), stride_of_row(from.channels)}, matrix_of(tap, columns, room.get()),
                   made.get());
          scatter<To>(made.get(), geometry_.batch, taps_[tap], to.of(columns.first, columns.count));
        }
      }
    });
  }

  // The gradient of one tap's matrix; `from` and `to` are room for rows.
  void weight_of_tap(std::size_t tap, const Field& in, const Field& out, float* from, float* to,
                     float* gradient) const {
    if (taps_[tap].empty()) {
      std::fill_n(gradient, geometry_.inputs * geometry_.outputs, 0.F);
      return;
    }
    gather<&Connection::input>(in, geometry_.batch, taps_[tap], from);
    gather<&Connection::output>(out, geometry_.batch, taps_[tap], to);
    multiply(geometry_.inputs, geometry_.outputs, rows_of_tap(tap),
             {from, stride_of_row(geometry_.inputs), true}, {to, stride_of_row(geometry_.outputs)},
             gradient);
  }
};

}  // namespace

std::unique_ptr<ConvolutionKernel> make_tap_convolution(const ConvolutionGeometry& geometry) {
  return std::make_unique<TapConvolution>(geometry);
}

}  // namespace kolo
