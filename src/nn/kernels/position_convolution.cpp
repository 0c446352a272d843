#include <algorithm>

#include <oneapi/dnnl/dnnl.h>

#include "kolo/base/checked.h"
#include "nn/kernels/convolution_kernel.h"
#include "nn/kernels/onednn.h"

namespace kolo {

namespace {

// One tap of the kernel that connects a position of the input with one of the output.
struct Connection {
  std::int64_t output = 0;
  std::int64_t input = 0;
  std::int64_t tap = 0;
};

std::int64_t product(const std::vector<std::int64_t>& lengths) {
  return checked_product<std::int64_t>(lengths);
}

// The coordinates of an index in a grid of these lengths, the last running fastest.
std::vector<std::int64_t> coordinates(std::int64_t index,
                                      const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> result(lengths.size());
  for (std::size_t i = lengths.size(); i-- > 0; index /= lengths[i]) result[i] = index % lengths[i];
  return result;
}

// All connections that don't fall on padding, by output position.
std::vector<Connection> connections_of(const ConvolutionGeometry& geometry) {
  const auto output_size = geometry.output_size();
  std::vector<Connection> found;
  for (std::int64_t output = 0; output < product(output_size); ++output) {
    const auto at = coordinates(output, output_size);
    for (std::int64_t tap = 0; tap < product(geometry.kernel); ++tap) {
      const auto offset = coordinates(tap, geometry.kernel);
      std::int64_t input = 0;
      bool inside = true;
      for (std::size_t i = 0; i < at.size(); ++i) {
        const auto x = at[i] * geometry.stride[i] - geometry.padding[i] + offset[i];
        inside = inside && x >= 0 && x < geometry.size[i];
        input = input * geometry.size[i] + x;
      }
      if (inside) found.push_back({output, input, tap});
    }
  }
  return found;
}

// A row-major matrix whose rows are `stride` values apart.
struct Matrix {
  float* data = nullptr;
  std::int64_t stride = 0;
};

// C = A B, or C += A B where `add`; A is rows x inner, or is stored the other way round.
void multiply(char transpose_a, char transpose_b, std::int64_t rows, std::int64_t columns,
              std::int64_t inner, Matrix a, Matrix b, bool add, Matrix c) {
  const auto status = dnnl_sgemm(transpose_a, transpose_b, rows, columns, inner, 1, a.data,
                                 a.stride, b.data, b.stride, add ? 1 : 0, c.data, c.stride);
  if (status != dnnl_success)
    throw Error(fmt::format("nn: oneDNN: a product of matrices: status {}", int{status}));
}

// A matrix product over the batch for every connection. With few positions most taps of a 3x3
// kernel fall on padding, which costs other ways their time (5 of 9 for 2x2), and these lose it in
// moving more weights than values too; nothing of either is left here.
class PositionConvolution final : public ConvolutionKernel {
 public:
  explicit PositionConvolution(const ConvolutionGeometry& geometry)
      : geometry_(geometry),
        positions_in_(product(geometry.size)),
        positions_out_(product(geometry.output_size())),
        taps_(product(geometry.kernel)),
        connections_(connections_of(geometry)) {}

  void forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
               const torch::Tensor& output) override {
    const auto packed = pack(weight);
    std::vector<char> written(static_cast<std::size_t>(positions_out_), 0);
    for (const auto& [out, in, tap] : connections_) {
      multiply('N', 'N', geometry_.batch, geometry_.outputs, geometry_.inputs, input_at(input, in),
               weight_at(packed, tap),
               std::exchange(written[static_cast<std::size_t>(out)], 1) != 0,
               output_at(output, out));
    }
    auto rows = rows_of(output, positions_out_, geometry_.outputs);
    for (std::int64_t out = 0; out < positions_out_; ++out) {
      if (written[static_cast<std::size_t>(out)] == 0) rows.select(1, out).zero_();
    }
    if (bias.defined()) rows.add_(bias.detach());
  }

  void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                      const torch::Tensor& input_gradient) override {
    const auto packed = pack(weight);
    std::vector<char> written(static_cast<std::size_t>(positions_in_), 0);
    for (const auto& [out, in, tap] : connections_) {
      multiply('N', 'T', geometry_.batch, geometry_.inputs, geometry_.outputs,
               output_at(output_gradient, out), weight_at(packed, tap),
               std::exchange(written[static_cast<std::size_t>(in)], 1) != 0,
               input_at(input_gradient, in));
    }
    auto rows = rows_of(input_gradient, positions_in_, geometry_.inputs);
    for (std::int64_t in = 0; in < positions_in_; ++in) {
      if (written[static_cast<std::size_t>(in)] == 0) rows.select(1, in).zero_();
    }
  }

  void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                       const torch::Tensor& weight_gradient,
                       const torch::Tensor& bias_gradient) override {
    const auto packed = torch::empty({taps_, geometry_.inputs, geometry_.outputs});
    std::vector<char> written(static_cast<std::size_t>(taps_), 0);
    for (const auto& [out, in, tap] : connections_) {
      multiply('T', 'N', geometry_.inputs, geometry_.outputs, geometry_.batch, input_at(input, in),
               output_at(output_gradient, out),
               std::exchange(written[static_cast<std::size_t>(tap)], 1) != 0,
               weight_at(packed, tap));
    }
    for (std::int64_t tap = 0; tap < taps_; ++tap) {
      if (written[static_cast<std::size_t>(tap)] == 0) packed[tap].zero_();
    }
    reorder(packed, taps_first(), weight_gradient, taps_last());
    if (bias_gradient.defined()) {
      auto result = bias_gradient;
      torch::sum_out(result, rows_of(output_gradient, positions_out_, geometry_.outputs),
                     at::IntArrayRef({0, 1}));
    }
  }

 private:
  using Layout = dnnl::memory::desc;

  // [batch, positions, channels], the same memory.
  static torch::Tensor rows_of(const torch::Tensor& tensor, std::int64_t positions,
                               std::int64_t channels) {
    return tensor.as_strided({tensor.size(0), positions, channels},
                             {positions * channels, channels, 1});
  }

  [[nodiscard]] Matrix input_at(const torch::Tensor& input, std::int64_t position) const {
    return {input.data_ptr<float>() + position * geometry_.inputs,
            positions_in_ * geometry_.inputs};
  }
  [[nodiscard]] Matrix output_at(const torch::Tensor& output, std::int64_t position) const {
    return {output.data_ptr<float>() + position * geometry_.outputs,
            positions_out_ * geometry_.outputs};
  }
  [[nodiscard]] Matrix weight_at(const torch::Tensor& packed, std::int64_t tap) const {
    return {packed.data_ptr<float>() + tap * geometry_.inputs * geometry_.outputs,
            geometry_.outputs};
  }

  // Weights as [outputs, inputs, taps], as LibTorch has them, and as [taps, inputs, outputs].
  [[nodiscard]] Layout taps_last() const {
    return {{geometry_.outputs, geometry_.inputs, taps_},
            dnnl::memory::data_type::f32,
            dnnl::memory::dims{geometry_.inputs * taps_, taps_, 1}};
  }
  [[nodiscard]] Layout taps_first() const {
    return {{geometry_.outputs, geometry_.inputs, taps_},
            dnnl::memory::data_type::f32,
            dnnl::memory::dims{1, geometry_.outputs, geometry_.inputs * geometry_.outputs}};
  }

  void reorder(const torch::Tensor& from, const Layout& from_layout, const torch::Tensor& to,
               const Layout& to_layout) {
    dnnl::memory source(from_layout, engine_, from.data_ptr());
    dnnl::memory target(to_layout, engine_, to.data_ptr());
    dnnl::reorder(source, target).execute(stream_, source, target);
    stream_.wait();
  }

  [[nodiscard]] torch::Tensor pack(const torch::Tensor& weight) {
    auto packed = torch::empty({taps_, geometry_.inputs, geometry_.outputs});
    reorder(weight, taps_last(), packed, taps_first());
    return packed;
  }

  ConvolutionGeometry geometry_;
  std::int64_t positions_in_, positions_out_, taps_;
  std::vector<Connection> connections_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
};

}  // namespace

std::unique_ptr<ConvolutionKernel> make_position_convolution(const ConvolutionGeometry& geometry) {
  return std::make_unique<PositionConvolution>(geometry);
}

}  // namespace kolo
