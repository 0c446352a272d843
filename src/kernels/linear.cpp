#include "kolo/kernels/linear.h"

#include <vector>

#include <ATen/record_function.h>

#include "kernels/convolution_kernel.h"
#include "kernels/fused.h"
#include "kernels/kept_kernel.h"
#include "kolo/kernels/autocast.h"

namespace kolo {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// y = x W^T + b, of [rows, inputs] without gaps. W, [outputs, inputs], lies in memory as the one
// tap of a convolution from `outputs` channels to `inputs`: y is that one's data gradient, and the
// gradient of x its output.
class MultiplyRows : public torch::autograd::Function<MultiplyRows> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& input,
                               const torch::Tensor& weight,
                               const c10::optional<torch::Tensor>& bias,
                               const std::shared_ptr<ConvolutionKernel>& kernel) {
    RECORD_FUNCTION("kolo::linear", (std::vector<c10::IValue>{input, weight}));
    auto output = torch::empty({input.size(0), weight.size(0)}, input.options());
    kernel->backward_input(input, weight.t(), output);
    if (bias.has_value()) add_bias(output, output.size(1), bias.value().detach());
    context->save_for_backward({input, weight});
    KeptKernel::keep(kernel, *context);
    context->saved_data["bias"] = bias.has_value();
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &input = saved[0], &weight = saved[1];
    const bool has_bias = context->saved_data["bias"].toBool();
    if (at::GradMode::is_enabled())  // gradients of the gradients are wanted
      return differentiable(gradients[0].to(torch::kFloat), input, weight, has_bias);
    const auto kernel = KeptKernel::of(*context);
    RECORD_FUNCTION("kolo::linear_backward", (std::vector<c10::IValue>{input, weight}));
    const auto gradient = gradients[0].contiguous();
    torch::Tensor of_input, of_weight, of_bias;
    if (context->needs_input_grad(1)) {
      of_weight = destination_of_gradient(weight);
      kernel->backward_weight(gradient, input, of_weight.t());
    }
    if (context->needs_input_grad(0)) {
      of_input = torch::empty_like(input);
      kernel->forward(gradient, weight.t(), {}, of_input);
    }
    if (has_bias && context->needs_input_grad(2))
      of_bias = sum_by_channel(gradient, MemoryOrder::channels_last);
    return {of_input, of_weight, of_bias, {}};
  }

 private:
  // The same by LibTorch's operators, which have derivatives.
  static variable_list differentiable(const torch::Tensor& gradient, const torch::Tensor& input,
                                      const torch::Tensor& weight, bool has_bias) {
    return {gradient.mm(weight).to(input.scalar_type()),
            gradient.t().mm(input.to(torch::kFloat)),
            has_bias ? gradient.sum(0) : torch::Tensor(),
            {}};
  }
};

}  // namespace

LinearImpl::LinearImpl(const torch::nn::LinearOptions& options_)
    : torch::nn::LinearImpl(options_), kernels_(std::make_shared<ConvolutionKernels>()) {}

torch::Tensor LinearImpl::forward(const torch::Tensor& input) {
  const auto inputs = options.in_features(), outputs = options.out_features();
  const auto type = autocast_type().value_or(torch::kFloat);
  const bool is_known =
      !PlainKernels::are_wanted() && input.device().is_cpu() && input.layout() == torch::kStrided &&
      input.dim() > 0 && input.numel() > 0 && input.size(-1) == inputs &&
      (input.scalar_type() == torch::kFloat || input.scalar_type() == type) &&
      weight.scalar_type() == torch::kFloat && weight.device().is_cpu() && weight.is_contiguous();
  if (!is_known) return torch::nn::LinearImpl::forward(input);
  const auto kernel = kernels_->find({.batch = input.numel() / inputs,
                                      .inputs = outputs,
                                      .outputs = inputs,
                                      .bias = false,
                                      .has_taps_first = true,
                                      .type = type});
  if (!kernel) return torch::nn::LinearImpl::forward(input);
  const auto rows = input.to(type).reshape({-1, inputs}).contiguous();
  const auto made = MultiplyRows::apply(rows, weight, if_defined(bias), kernel);
  if (input.dim() == 2) return made;
  auto shape = input.sizes().vec();
  shape.back() = outputs;
  return made.view(shape);
}

}  // namespace kolo
