#include <algorithm>

#include <oneapi/dnnl/dnnl.h>

#include "kolo/base/checked.h"
#include "nn/kernels/convolution_kernel.h"
#include "nn/kernels/onednn.h"
#include "nn/kernels/taps_first.h"

namespace kolo {

namespace {

// Positions of the input and the output that a tap of the kernel connects, from 0.
struct Connection {
  std::int64_t input = 0;
  std::int64_t output = 0;
};

// A tap's connections that don't fall on padding.
using Tap = std::vector<Connection>;

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

Tap connections_of(const ConvolutionGeometry& geometry, std::int64_t tap) {
  const auto output_size = geometry.output_size();
  const auto offset = coordinates(tap, geometry.kernel);
  Tap found;
  for (std::int64_t output = 0; output < product(output_size); ++output) {
    const auto at = coordinates(output, output_size);
    std::int64_t input = 0;
    bool inside = true;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const auto x = at[i] * geometry.stride[i] - geometry.padding[i] + offset[i];
      inside = inside && x >= 0 && x < geometry.size[i];
      input = input * geometry.size[i] + x;
    }
    if (inside) found.push_back({input, output});
  }
  return found;
}

std::vector<Tap> taps_of(const ConvolutionGeometry& geometry) {
  std::vector<Tap> taps;
  for (std::int64_t tap = 0; tap < product(geometry.kernel); ++tap)
    taps.push_back(connections_of(geometry, tap));
  return taps;
}

// Vectors of channels in channels-last memory: [batch, positions, channels].
struct Field {
  float* data = nullptr;
  std::int64_t positions = 0;
  std::int64_t channels = 0;

  [[nodiscard]] float* at(std::int64_t sample, std::int64_t position) const {
    return data + (sample * positions + position) * channels;
  }
};

// The field's vectors at one end of a tap's connections, all samples', one below the other.
template <std::int64_t Connection::*End>
void gather(const Field& field, std::int64_t batch, const Tap& tap, float* rows) {
  for (const Connection& connection : tap) {
    for (std::int64_t sample = 0; sample < batch; ++sample, rows += field.channels)
      std::copy_n(field.at(sample, connection.*End), field.channels, rows);
  }
}

// Adds rows, in gather()'s order, to the field.
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

// C = A B of dense row-major matrices; A is rows x inner, B inner x columns, or stored the other
// way round.
void multiply(char transpose_a, char transpose_b, std::int64_t rows, std::int64_t columns,
              std::int64_t inner, const float* a, const float* b, float* c) {
  const auto status = dnnl_sgemm(transpose_a, transpose_b, rows, columns, inner, 1, a,
                                 transpose_a == 'N' ? inner : rows, b,
                                 transpose_b == 'N' ? columns : inner, 0, c, columns);
  if (status != dnnl_success)
    throw Error(fmt::format("nn: oneDNN: a product of matrices: status {}", int{status}));
}

// A matrix product for every tap of the kernel, over the samples and the positions it connects.
// With few positions many taps fall on padding (7 of 8 in a 4x4x4 kernel that makes 1x1x1 of
// 2x2x2), which costs other ways their time, and those move more weights than values besides: into
// a layout of their own, in each pass. Here every weight that counts is read once, where it lies,
// if that is taps-first memory.
class TapConvolution final : public ConvolutionKernel {
 public:
  explicit TapConvolution(const ConvolutionGeometry& geometry)
      : geometry_(geometry),
        positions_in_(product(geometry.size)),
        positions_out_(product(geometry.output_size())),
        taps_(taps_of(geometry)) {
    for (const Tap& tap : taps_)
      most_rows_ = std::max(most_rows_, geometry.batch * static_cast<std::int64_t>(tap.size()));
  }

  void forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
               const torch::Tensor& output) override {
    const auto weights = packed(weight);
    const auto in = input_field(input), out = output_field(output);
    rows_of(output, positions_out_, geometry_.outputs).zero_();
    const auto from = rows(geometry_.inputs), to = rows(geometry_.outputs);
    for (std::size_t tap = 0; tap < taps_.size(); ++tap) {
      if (taps_[tap].empty()) continue;
      gather<&Connection::input>(in, geometry_.batch, taps_[tap], from.data_ptr<float>());
      multiply('N', 'N', rows_of_tap(tap), geometry_.outputs, geometry_.inputs,
               from.data_ptr<float>(), matrix(weights, tap), to.data_ptr<float>());
      scatter<&Connection::output>(to.data_ptr<float>(), geometry_.batch, taps_[tap], out);
    }
    if (bias.defined()) rows_of(output, positions_out_, geometry_.outputs).add_(bias.detach());
  }

  void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                      const torch::Tensor& input_gradient) override {
    const auto weights = packed(weight);
    const auto in = input_field(input_gradient), out = output_field(output_gradient);
    rows_of(input_gradient, positions_in_, geometry_.inputs).zero_();
    const auto from = rows(geometry_.outputs), to = rows(geometry_.inputs);
    for (std::size_t tap = 0; tap < taps_.size(); ++tap) {
      if (taps_[tap].empty()) continue;
      gather<&Connection::output>(out, geometry_.batch, taps_[tap], from.data_ptr<float>());
      multiply('N', 'T', rows_of_tap(tap), geometry_.inputs, geometry_.outputs,
               from.data_ptr<float>(), matrix(weights, tap), to.data_ptr<float>());
      scatter<&Connection::input>(to.data_ptr<float>(), geometry_.batch, taps_[tap], in);
    }
  }

  void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                       const torch::Tensor& weight_gradient,
                       const torch::Tensor& bias_gradient) override {
    const bool is_in_place = is_taps_first(weight_gradient);
    const auto weights = is_in_place ? weight_gradient : room_for_weights();
    const auto in = input_field(input), out = output_field(output_gradient);
    const auto from = rows(geometry_.inputs), to = rows(geometry_.outputs);
    const auto size = geometry_.inputs * geometry_.outputs;
    for (std::size_t tap = 0; tap < taps_.size(); ++tap) {
      if (taps_[tap].empty()) {
        std::fill_n(matrix(weights, tap), size, 0.F);
        continue;
      }
      gather<&Connection::input>(in, geometry_.batch, taps_[tap], from.data_ptr<float>());
      gather<&Connection::output>(out, geometry_.batch, taps_[tap], to.data_ptr<float>());
      multiply('T', 'N', geometry_.inputs, geometry_.outputs, rows_of_tap(tap),
               from.data_ptr<float>(), to.data_ptr<float>(), matrix(weights, tap));
    }
    if (!is_in_place)
      reorder(weights, in_taps_first(), weight_gradient, layout_of(weight_gradient));
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

  [[nodiscard]] Field input_field(const torch::Tensor& input) const {
    return {input.data_ptr<float>(), positions_in_, geometry_.inputs};
  }
  [[nodiscard]] Field output_field(const torch::Tensor& output) const {
    return {output.data_ptr<float>(), positions_out_, geometry_.outputs};
  }
  [[nodiscard]] torch::Tensor rows(std::int64_t channels) const {
    return torch::empty({most_rows_, channels});
  }
  [[nodiscard]] std::int64_t rows_of_tap(std::size_t tap) const {
    return geometry_.batch * static_cast<std::int64_t>(taps_[tap].size());
  }

  // A tap's inputs x outputs matrix.
  [[nodiscard]] float* matrix(const torch::Tensor& weights, std::size_t tap) const {
    return weights.data_ptr<float>() +
           static_cast<std::int64_t>(tap) * geometry_.inputs * geometry_.outputs;
  }

  [[nodiscard]] torch::Tensor room_for_weights() const {
    return torch::empty({narrow<std::int64_t>(taps_.size()), geometry_.inputs, geometry_.outputs});
  }

  // Weights as [outputs, inputs, taps]: as a tensor has them, and as the products take them.
  [[nodiscard]] Layout layout_of(const torch::Tensor& weight) const {
    const auto flat = weight.flatten(2);  // a view: the taps lie in order in either memory
    return {flat.sizes().vec(), dnnl::memory::data_type::f32, flat.strides().vec()};
  }
  [[nodiscard]] Layout in_taps_first() const {
    return {{geometry_.outputs, geometry_.inputs, narrow<std::int64_t>(taps_.size())},
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

  [[nodiscard]] torch::Tensor packed(const torch::Tensor& weight) {
    if (is_taps_first(weight)) return weight;
    auto result = room_for_weights();
    reorder(weight, layout_of(weight), result, in_taps_first());
    return result;
  }

  ConvolutionGeometry geometry_;
  std::int64_t positions_in_, positions_out_;
  std::vector<Tap> taps_;  // the last dimension running fastest
  std::int64_t most_rows_ = 1;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
};

}  // namespace

std::unique_ptr<ConvolutionKernel> make_tap_convolution(const ConvolutionGeometry& geometry) {
  return std::make_unique<TapConvolution>(geometry);
}

}  // namespace kolo
