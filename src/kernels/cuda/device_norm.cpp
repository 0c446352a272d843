#include "kernels/fused.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "base/second_derivatives.h"
#include "kernels/cuda/norm_kernels.h"

namespace kolo {

namespace {

constexpr auto channels_last = at::MemoryFormat::ChannelsLast;

std::optional<norm::ValueType> type_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kFloat:
      return norm::ValueType::float32;
    case torch::kHalf:
      return norm::ValueType::float16;
    case torch::kBFloat16:
      return norm::ValueType::bfloat16;
    default:
      return std::nullopt;
  }
}

norm::Rows rows_of(const torch::Tensor& tensor) {
  return {tensor.numel() / tensor.size(1), tensor.size(1)};
}

void* data_of(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr() : nullptr;
}

norm::Channels channels_of(const torch::Tensor& weight, const torch::Tensor& bias,
                           const torch::Tensor& kept) {
  return {weight.data_ptr<float>(), bias.data_ptr<float>(), kept.data_ptr<float>()};
}

// Of one pass, in the order of the current stream.
class Workspace {
 public:
  Workspace(const norm::Rows& rows, const torch::Device& device)
      : memory_(torch::empty({static_cast<std::int64_t>(norm::workspace_bytes(rows))},
                             torch::TensorOptions(torch::kByte).device(device))) {}

  [[nodiscard]] std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(memory_.data_ptr()), static_cast<std::size_t>(memory_.numel())};
  }

 private:
  torch::Tensor memory_;
};

// What a layer has besides its parameters.
struct Layer {
  torch::Tensor running_mean, running_variance;
  double momentum;
  double epsilon;
  bool relu;
};

class DeviceNormFunction : public torch::autograd::Function<DeviceNormFunction> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& input, const torch::Tensor& weight,
                               const torch::Tensor& bias,
                               const c10::optional<torch::Tensor>& addend, const Layer& layer) {
    const c10::cuda::CUDAGuard guard(input.device());
    const auto rows = rows_of(input);
    const auto kept = torch::empty({2, rows.channels}, weight.options());
    auto output = torch::empty_like(input);
    const Workspace workspace(rows, input.device());
    norm::forward(type_of(input).value(), rows,
                  {.input = input.data_ptr(),
                   .addend = data_of(addend.value_or(torch::Tensor())),
                   .output = output.data_ptr(),
                   .channels = channels_of(weight, bias, kept),
                   .running_mean = layer.running_mean.data_ptr<float>(),
                   .running_variance = layer.running_variance.data_ptr<float>(),
                   .momentum = layer.momentum,
                   .epsilon = layer.epsilon,
                   .relu = layer.relu},
                  workspace.bytes(), c10::cuda::getCurrentCUDAStream().stream());
    context->save_for_backward({input, weight, bias, kept, layer.relu ? output : torch::Tensor()});
    context->saved_data["adds"] = addend.has_value();
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    refuse_second_derivatives("nn: batch norm");
    const auto saved = context->get_saved_variables();
    const auto &input = saved[0], &weight = saved[1], &bias = saved[2], &kept = saved[3],
               &output = saved[4];
    const c10::cuda::CUDAGuard guard(input.device());
    const auto rows = rows_of(input);
    const auto gradient = gradients[0].to(input.scalar_type()).contiguous(channels_last);
    const bool adds = context->saved_data["adds"].toBool();
    auto of_addend = adds && output.defined() ? torch::empty_like(input) : torch::Tensor();
    auto of_input = torch::empty_like(input);
    auto of_weight = torch::empty_like(weight), of_bias = torch::empty_like(bias);
    const Workspace workspace(rows, input.device());
    norm::backward(type_of(input).value(), rows,
                   {.gradient = gradient.data_ptr(),
                    .input = input.data_ptr(),
                    .output = data_of(output),
                    .channels = channels_of(weight, bias, kept),
                    .of_input = of_input.data_ptr(),
                    .of_addend = data_of(of_addend),
                    .of_weight = of_weight.data_ptr<float>(),
                    .of_bias = of_bias.data_ptr<float>()},
                   workspace.bytes(), c10::cuda::getCurrentCUDAStream().stream());
    if (adds && !of_addend.defined()) of_addend = gradient;
    return {of_input, of_weight, of_bias, of_addend, {}};
  }
};

bool is_for_kernels(const torch::Tensor& tensor, const torch::Tensor& like) {
  return tensor.is_cuda() && type_of(tensor) && tensor.scalar_type() == like.scalar_type() &&
         tensor.layout() == torch::kStrided && tensor.dim() == 4 &&
         tensor.sizes() == like.sizes() && tensor.is_contiguous(channels_last);
}

}  // namespace

std::optional<torch::Tensor> batch_norm_on_device(torch::nn::BatchNorm2dImpl& layer,
                                                  const torch::Tensor& input,
                                                  const torch::Tensor& addend,
                                                  Activation activation) {
  const auto& options = layer.options;
  if (!is_for_kernels(input, input) || (addend.defined() && !is_for_kernels(addend, input)) ||
      !layer.is_training() || !options.affine() || !options.track_running_stats() ||
      !options.momentum() || layer.weight.scalar_type() != torch::kFloat ||
      input.size(1) != options.num_features() || input.numel() <= input.size(1))
    return std::nullopt;
  {
    const torch::NoGradGuard no_gradient;
    layer.num_batches_tracked.add_(1);
  }
  const auto added = addend.defined() ? c10::make_optional(addend) : c10::nullopt;
  return DeviceNormFunction::apply(
      input, layer.weight, layer.bias, added,
      Layer{layer.running_mean, layer.running_var, options.momentum().value(), options.eps(),
            activation == Activation::relu});
}

}  // namespace kolo
