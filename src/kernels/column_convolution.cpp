#include <algorithm>
#include <memory>
#include <vector>

#include <ATen/Parallel.h>

#include "base/aligned_values.h"
#include "kernels/convolution_kernel.h"
#include "kernels/loops.h"
#include "kernels/products.h"
#include "kolo/base/checked.h"

namespace kolo {

namespace {

using bfloat16_products::Pair;

// Computes the gradient of an input of few channels as products of matrices: a row an output
// position, a column a tap and channel, whose values are then added where they belong (Chellapilla,
// Puri and Simard, 2006, the other way round). It would fill vectors of 16 channels to a third.
// Another kernel does the other passes.
class ColumnConvolution final : public ConvolutionKernel {
 public:
  ColumnConvolution(const ConvolutionGeometry& geometry, std::unique_ptr<ConvolutionKernel> other)
      : geometry_(geometry), output_size_(geometry.output_size()), other_(std::move(other)) {
    line_ = {.input_length = geometry.size.back(),
             .output_length = output_size_.back(),
             .channels = geometry.inputs,
             .taps = geometry.kernel.back(),
             .stride = geometry.stride.back(),
             .padding = geometry.padding.back()};
    for (std::size_t i = 0; i + 1 < geometry.size.size(); ++i) {
      lines_in_ = checked_multiply(lines_in_, geometry.size[i]);
      lines_out_ = checked_multiply(lines_out_, output_size_[i]);
      outer_taps_ = checked_multiply(outer_taps_, geometry.kernel[i]);
    }
    columns_ = checked_multiply(outer_taps_, checked_multiply(line_.taps, geometry.inputs));
  }

  // Whether there are products of such a type and such lengths.
  [[nodiscard]] static bool multiplies(const ConvolutionGeometry& geometry) {
    const auto columns = checked_multiply(geometry.taps(), geometry.inputs);
    return geometry.type == torch::kBFloat16 && bfloat16_products::are_supported() &&
           columns % bfloat16_products::lanes == 0 && geometry.outputs % 2 == 0;
  }

  void forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
               const torch::Tensor& output) override {
    other_->forward(input, weight, bias, output);
  }

  void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                      const torch::Tensor& input_gradient) override {
    const auto weights = taps_before_channels(weight);
    if (geometry_.type == torch::kFloat) {
      add_products(input_gradient, [&](std::int64_t first, std::int64_t count, float* columns) {
        multiply(count, columns_, geometry_.outputs,
                 {output_gradient.data_ptr<float>() + first * geometry_.outputs, geometry_.outputs},
                 {weights.data_ptr<float>(), columns_}, columns);
      });
      return;
    }
    const auto pairs = geometry_.outputs / 2;
    const auto packed = uninitialized<Pair>(checked_multiply(pairs, columns_));
    bfloat16_products::pack(weights.data_ptr<float>(), columns_, geometry_.outputs, columns_,
                            packed.get(), columns_);
    const auto* const values = static_cast<const Pair*>(output_gradient.data_ptr());
    const auto sums =
        torch::empty_like(input_gradient, input_gradient.options().dtype(torch::kFloat));
    add_products(sums, [&](std::int64_t first, std::int64_t count, float* columns) {
      std::vector<const Pair*> rows;
      std::vector<float*> results;
      for (std::int64_t row = 0; row < count; ++row) {
        rows.push_back(values + (first + row) * pairs);
        results.push_back(columns + row * columns_);
      }
      bfloat16_products::multiply(count, columns_, pairs, {rows.data()}, packed.get(),
                                  results.data(), ProductResult::replaces);
    });
    input_gradient.copy_(sums);
  }

  void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                       const torch::Tensor& weight_gradient) override {
    other_->backward_weight(input, output_gradient, weight_gradient);
  }

 private:
  // [outputs, taps, inputs] in memory.
  static torch::Tensor taps_before_channels(const torch::Tensor& weight) {
    return weight.detach().flatten(2).transpose(1, 2).contiguous();
  }

  // `products(first, count, columns)` sets `columns` to the products of so many output positions,
  // of all samples, from one on.
  template <typename Products>
  void add_products(const torch::Tensor& sums, const Products& products) const {
    const auto in_sample = lines_in_ * line_.input_length * geometry_.inputs;
    at::parallel_for(0, geometry_.batch, 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto sample = begin; sample < end; ++sample) {
        float* const into = sums.data_ptr<float>() + sample * in_sample;
        std::fill_n(into, in_sample, 0.F);
        add_sample(sample, products, into);
      }
    });
  }

  // By blocks of lines, so that a block's columns stay in the second-level cache.
  template <typename Products>
  void add_sample(std::int64_t sample, const Products& products, float* into) const {
    constexpr std::int64_t values_of_block = 1 << 17;
    const auto line_columns = line_.output_length * columns_;
    const auto block = std::clamp<std::int64_t>(values_of_block / line_columns, 1, lines_out_);
    const auto room = uninitialized<float>(checked_multiply(block, line_columns));
    for (std::int64_t first = 0; first < lines_out_; first += block) {
      const auto lines = std::min(block, lines_out_ - first);
      products((sample * lines_out_ + first) * line_.output_length, lines * line_.output_length,
               room.get());
      for (std::int64_t line = 0; line < lines; ++line)
        add_line(first + line, room.get() + line * line_columns, into);
    }
  }

  // To every input line that the output line is made from.
  void add_line(std::int64_t output_line, const float* columns, float* into) const {
    const auto row = columns_ / outer_taps_;
    for (std::int64_t tap = 0; tap < outer_taps_; ++tap) {
      const auto input_line = input_line_of(output_line, tap);
      if (input_line < 0) continue;
      add_columns(line_, columns + tap * row, columns_,
                  into + input_line * line_.input_length * geometry_.inputs);
    }
  }

  // Below 0 on padding. Lines and outer taps are numbered with the last dimension running fastest.
  [[nodiscard]] std::int64_t input_line_of(std::int64_t output_line, std::int64_t tap) const {
    std::int64_t input_line = 0, lines = 1;
    for (std::size_t i = geometry_.size.size() - 1; i-- > 0;) {
      const auto at = output_line % output_size_[i] * geometry_.stride[i] - geometry_.padding[i] +
                      tap % geometry_.kernel[i];
      if (at < 0 || at >= geometry_.size[i]) return -1;
      input_line += at * lines;
      lines *= geometry_.size[i];
      output_line /= output_size_[i];
      tap /= geometry_.kernel[i];
    }
    return input_line;
  }

  ConvolutionGeometry geometry_;
  std::vector<std::int64_t> output_size_;
  std::unique_ptr<ConvolutionKernel> other_;
  LineGeometry line_;
  std::int64_t lines_in_ = 1, lines_out_ = 1, outer_taps_ = 1, columns_ = 0;
};

}  // namespace

std::unique_ptr<ConvolutionKernel> make_column_convolution(const ConvolutionGeometry& geometry) {
  if (geometry.type != torch::kFloat && !ColumnConvolution::multiplies(geometry)) return nullptr;
  auto other = make_direct_convolution(geometry);
  if (!other) return nullptr;
  return std::make_unique<ColumnConvolution>(geometry, std::move(other));
}

}  // namespace kolo
