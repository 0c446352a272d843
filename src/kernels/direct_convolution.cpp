#include <torch/nn/modules/conv.h>
#include <array>
#include <string_view>

#include "kernels/convolution_kernel.h"
#include "kernels/onednn.h"
#include "kolo/base/checked.h"
#include "kolo/kernels/convolution.h"

namespace kolo {

namespace {

using dnnl::memory;
using Tag = memory::format_tag;

constexpr auto real = memory::data_type::f32;

Tag channels_last(std::size_t dimensions) {
  return std::array{Tag::nwc, Tag::nhwc, Tag::ndhwc}[dimensions - 1];
}

// Weights may lie in memory in any order.
memory::desc layout_of(const torch::Tensor& weight) {
  return {weight.sizes().vec(), real, weight.strides().vec()};
}

memory::dims with_lengths(std::int64_t first, std::int64_t second,
                          const std::vector<std::int64_t>& rest) {
  memory::dims lengths = {first, second};
  lengths.insert(lengths.end(), rest.begin(), rest.end());
  return lengths;
}

// Products of bfloat16 are added up in float32; so the gradients of weights are.
onednn::ConvolutionArguments arguments_of(const ConvolutionGeometry& geometry) {
  const auto type = geometry.type == torch::kBFloat16 ? memory::data_type::bf16 : real;
  const auto tag = channels_last(geometry.size.size());
  const auto weight = with_lengths(geometry.outputs, geometry.inputs, geometry.kernel);
  const auto bias = geometry.bias ? memory::desc({geometry.outputs}, real, Tag::x) : memory::desc();
  return {
      .input = {with_lengths(geometry.batch, geometry.inputs, geometry.size), type, tag},
      .weight = {weight, type, Tag::any},
      .bias = bias,
      .output = {with_lengths(geometry.batch, geometry.outputs, geometry.output_size()), type, tag},
      .weight_gradient = {weight, real, Tag::any},
      .stride = geometry.stride,
      .padding = geometry.padding};
}

template <typename Description>
bool is_reference(const Description& description) {
  return std::string_view(description.impl_info_str()).starts_with("ref");
}

// oneDNN's primitives, with the weight in the layout that each prefers.
class DirectConvolution final : public ConvolutionKernel {
 public:
  explicit DirectConvolution(const ConvolutionGeometry& geometry)
      : is_rounded_(geometry.type == torch::kBFloat16),
        arguments_(arguments_of(geometry)),
        forward_(onednn::forward_of(engine_, arguments_)),
        backward_input_(onednn::backward_input_of(engine_, arguments_, forward_)),
        backward_weight_(onednn::backward_weight_of(engine_, arguments_, forward_)) {}

  [[nodiscard]] bool is_vectorized() const {
    return !is_reference(forward_) && !is_reference(backward_input_) &&
           !is_reference(backward_weight_);
  }

  [[nodiscard]] std::string implementation() const { return forward_.impl_info_str(); }

  void forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
               const torch::Tensor& output) override {
    onednn::checked("forward of a convolution", [&] {
      if (!forward_primitive_) forward_primitive_ = dnnl::convolution_forward(forward_);
      const auto weights = packed(weight, forward_.weights_desc());
      forward_primitive_.execute(stream_, {{DNNL_ARG_SRC, view(arguments_.input, input)},
                                           {DNNL_ARG_WEIGHTS, weights.values},
                                           {DNNL_ARG_BIAS, view(arguments_.bias, bias)},
                                           {DNNL_ARG_DST, view(arguments_.output, output)}});
      stream_.wait();
    });
  }

  void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                      const torch::Tensor& input_gradient) override {
    onednn::checked("backward of a convolution", [&] {
      if (!backward_input_primitive_)
        backward_input_primitive_ = dnnl::convolution_backward_data(backward_input_);
      const auto weights = packed(weight, backward_input_.weights_desc());
      backward_input_primitive_.execute(
          stream_, {{DNNL_ARG_DIFF_DST, view(arguments_.output, output_gradient)},
                    {DNNL_ARG_WEIGHTS, weights.values},
                    {DNNL_ARG_DIFF_SRC, view(arguments_.input, input_gradient)}});
      stream_.wait();
    });
  }

  void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                       const torch::Tensor& weight_gradient) override {
    onednn::checked("backward of a convolution", [&] {
      if (!backward_weight_primitive_)
        backward_weight_primitive_ = dnnl::convolution_backward_weights(backward_weight_);
      const auto preferred = backward_weight_.diff_weights_desc();
      const auto layout = layout_of(weight_gradient);
      const bool is_plain = preferred == layout;
      const auto plain = view(layout, weight_gradient);
      const auto result = is_plain ? Packed{weight_gradient, plain} : room_for(preferred);
      backward_weight_primitive_.execute(
          stream_, {{DNNL_ARG_SRC, view(arguments_.input, input)},
                    {DNNL_ARG_DIFF_DST, view(arguments_.output, output_gradient)},
                    {DNNL_ARG_DIFF_WEIGHTS, result.values}});
      if (!is_plain) reorder(result.values, plain);
      stream_.wait();
    });
  }

 private:
  [[nodiscard]] memory view(const memory::desc& layout, const torch::Tensor& tensor) const {
    if (!tensor.defined()) return {};
    return {layout, engine_, tensor.data_ptr()};
  }

  // Values in a layout of oneDNN's, in memory of their own or of the tensor they came from.
  struct Packed {
    torch::Tensor room;
    memory values;
  };

  [[nodiscard]] Packed room_for(const memory::desc& layout) const {
    const auto room = torch::empty({narrow<std::int64_t>(layout.get_size())}, torch::kByte);
    return {room, view(layout, room)};
  }

  [[nodiscard]] Packed packed(const torch::Tensor& weight, const memory::desc& layout) {
    const auto given = layout_of(weight);
    auto plain = view(given, weight);
    if (layout == given) return {weight, plain};
    auto result = room_for(layout);
    if (!is_rounded_ ||
        !onednn::pack_weight(weight, onednn::layout_of(layout), result.room.data_ptr()))
      reorder(plain, result.values);
    return result;
  }

  void reorder(memory from, memory to) { dnnl::reorder(from, to).execute(stream_, from, to); }

  bool is_rounded_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  onednn::ConvolutionArguments arguments_;
  onednn::Forward::primitive_desc forward_;
  onednn::BackwardInput::primitive_desc backward_input_;
  onednn::BackwardWeight::primitive_desc backward_weight_;
  onednn::Forward forward_primitive_;
  onednn::BackwardInput backward_input_primitive_;
  onednn::BackwardWeight backward_weight_primitive_;
};

std::unique_ptr<DirectConvolution> make_vectorized(const ConvolutionGeometry& geometry) {
  try {
    auto kernel = std::make_unique<DirectConvolution>(geometry);
    return kernel->is_vectorized() ? std::move(kernel) : nullptr;
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return nullptr;
    throw Error(fmt::format("nn: oneDNN: a convolution: {}", error.what()));
  }
}

}  // namespace

std::unique_ptr<ConvolutionKernel> make_direct_convolution(const ConvolutionGeometry& geometry) {
  return is_wrong_in_onednn(geometry) ? nullptr : make_vectorized(geometry);
}

std::string convolution_implementation(std::int64_t dimensions) {
  const auto lengths = [&](std::int64_t length) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(dimensions), length);
  };
  const auto kernel = make_vectorized({.batch = 2,
                                       .inputs = 64,
                                       .outputs = 64,
                                       .size = lengths(16),
                                       .kernel = lengths(3),
                                       .stride = lengths(1),
                                       .padding = lengths(1)});
  return kernel ? kernel->implementation() : "";
}

}  // namespace kolo
