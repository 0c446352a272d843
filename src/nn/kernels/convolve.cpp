#include "nn/kernels/convolve.h"

#include <torch/custom_class.h>

#include "nn/kernels/batch_last.h"
#include "nn/kernels/gradient_destination.h"
#include "nn/kernels/onednn.h"

namespace kolo {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A kernel among what autograd keeps from forward to backward.
struct KeptKernel : torch::CustomClassHolder {
  explicit KeptKernel(std::shared_ptr<ConvolutionKernel> kept) : kernel(std::move(kept)) {}
  std::shared_ptr<ConvolutionKernel> kernel;
};

void keep(AutogradContext* context, const torch::Tensor& input, const torch::Tensor& weight,
          bool has_bias, const std::shared_ptr<ConvolutionKernel>& kernel) {
  context->save_for_backward({input, weight});
  context->saved_data["kernel"] =
      c10::IValue::make_capsule(c10::make_intrusive<KeptKernel>(kernel));
  context->saved_data["bias"] = has_bias;
}

at::MemoryFormat channels_last(std::int64_t dimensions) {
  return dimensions == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
}

torch::Tensor in_order(const torch::Tensor& tensor, MemoryOrder order) {
  return order == MemoryOrder::channels_last ? tensor.contiguous(channels_last(tensor.dim()))
                                             : with_batch_last(tensor);
}

torch::Tensor room_for(std::int64_t batch, std::int64_t channels,
                       const std::vector<std::int64_t>& size, const torch::Tensor& like,
                       MemoryOrder order) {
  std::vector<std::int64_t> lengths = {batch, channels};
  lengths.insert(lengths.end(), size.begin(), size.end());
  if (order == MemoryOrder::batch_last) return empty_with_batch_last(lengths, like.options());
  const auto format = channels_last(static_cast<std::int64_t>(lengths.size()));
  return torch::empty(lengths, like.options().memory_format(format));
}

// All but the channels summed up; `tensor` in channels-last memory.
torch::Tensor sum_of_channels(const torch::Tensor& tensor) {
  const auto channels = tensor.size(1);
  return tensor.as_strided({tensor.numel() / channels, channels}, {channels, 1}).sum(0);
}

// What backward goes on with: what forward kept, and the gradient of its output.
struct Kept {
  std::shared_ptr<ConvolutionKernel> kernel;
  torch::Tensor input, weight, gradient;
  bool has_bias = false;

  Kept(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled())
      throw Error("nn: convolution: has no second derivatives; drop create_graph");
    const auto capsule = context->saved_data["kernel"].toCapsule();
    kernel = static_cast<KeptKernel&>(*capsule).kernel;
    const auto saved = context->get_saved_variables();
    input = saved[0];
    weight = saved[1];
    gradient = in_order(gradients[0], kernel->order());
    has_bias = context->saved_data["bias"].toBool();
  }
};

class Convolve : public torch::autograd::Function<Convolve> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& given,
                               const torch::Tensor& weight,
                               const c10::optional<torch::Tensor>& bias,
                               const ConvolutionGeometry& geometry,
                               const std::shared_ptr<ConvolutionKernel>& kernel) {
    const auto input = in_order(given, kernel->order());
    auto output =
        room_for(geometry.batch, geometry.outputs, geometry.output_size(), input, kernel->order());
    onednn::checked("forward of a convolution", [&] {
      kernel->forward(input, weight, bias.value_or(torch::Tensor()), output);
    });
    keep(context, input, weight, bias.has_value(), kernel);
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Kept kept(context, gradients);
    torch::Tensor of_input, of_weight, of_bias;
    onednn::checked("backward of a convolution", [&] {
      if (context->needs_input_grad(1) || (kept.has_bias && context->needs_input_grad(2))) {
        of_weight = destination_of_gradient(kept.weight);
        if (kept.has_bias) of_bias = torch::empty({kept.weight.size(0)}, kept.weight.options());
        kept.kernel->backward_weight(kept.input, kept.gradient, of_weight, of_bias);
      }
      if (context->needs_input_grad(0)) {
        of_input = torch::empty_like(kept.input);
        kept.kernel->backward_input(kept.gradient, kept.weight, of_input);
      }
    });
    return {of_input, of_weight, of_bias, {}, {}};
  }
};

class ConvolveTransposed : public torch::autograd::Function<ConvolveTransposed> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& given,
                               const torch::Tensor& weight,
                               const c10::optional<torch::Tensor>& bias,
                               const ConvolutionGeometry& geometry,
                               const std::shared_ptr<ConvolutionKernel>& kernel) {
    const auto input = in_order(given, kernel->order());
    auto output = room_for(geometry.batch, geometry.inputs, geometry.size, input, kernel->order());
    onednn::checked("forward of a transposed convolution",
                    [&] { kernel->backward_input(input, weight, output); });
    if (bias.has_value()) {
      const auto channels = geometry.inputs;
      output.as_strided({output.numel() / channels, channels}, {channels, 1})
          .add_(bias.value().detach());
    }
    keep(context, input, weight, bias.has_value(), kernel);
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Kept kept(context, gradients);
    torch::Tensor of_input, of_weight, of_bias;
    onednn::checked("backward of a transposed convolution", [&] {
      if (context->needs_input_grad(1)) {
        of_weight = destination_of_gradient(kept.weight);
        kept.kernel->backward_weight(kept.gradient, kept.input, of_weight, {});
      }
      if (context->needs_input_grad(0)) {
        of_input = torch::empty_like(kept.input);
        kept.kernel->forward(kept.gradient, kept.weight, {}, of_input);
      }
    });
    if (kept.has_bias && context->needs_input_grad(2)) of_bias = sum_of_channels(kept.gradient);
    return {of_input, of_weight, of_bias, {}, {}};
  }
};

}  // namespace

torch::Tensor convolve(const torch::Tensor& input, const torch::Tensor& weight,
                       const c10::optional<torch::Tensor>& bias,
                       const ConvolutionGeometry& geometry,
                       const std::shared_ptr<ConvolutionKernel>& kernel) {
  return Convolve::apply(input, weight, bias, geometry, kernel);
}

torch::Tensor convolve_transposed(const torch::Tensor& input, const torch::Tensor& weight,
                                  const c10::optional<torch::Tensor>& bias,
                                  const ConvolutionGeometry& geometry,
                                  const std::shared_ptr<ConvolutionKernel>& kernel) {
  return ConvolveTransposed::apply(input, weight, bias, geometry, kernel);
}

}  // namespace kolo
