#include "kolo/nn/convolution.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include <torch/custom_class.h>

#include "nn/kernels/convolution_kernel.h"
#include "nn/kernels/onednn.h"
#include "nn/kernels/plain_kernels.h"

namespace kolo {

// The kernels of a layer for the last few geometries: whole and last batches, in training and
// validation.
class ConvolutionKernels {
 public:
  // Null where LibTorch's own convolution is the one to take.
  [[nodiscard]] std::shared_ptr<ConvolutionKernel> find(const ConvolutionGeometry& geometry) {
    const int threads = at::get_num_threads();
    const auto found = std::find_if(made_.begin(), made_.end(), [&](const Made& each) {
      return each.threads == threads && each.geometry == geometry;
    });
    if (found != made_.end()) return found->kernel;
    if (made_.size() == most) made_.pop_front();
    return made_.emplace_back(Made{geometry, threads, make_convolution_kernel(geometry)}).kernel;
  }

 private:
  static constexpr std::size_t most = 4;

  struct Made {
    ConvolutionGeometry geometry;
    int threads = 0;
    std::shared_ptr<ConvolutionKernel> kernel;
  };
  std::deque<Made> made_;
};

namespace {

constexpr auto channels_last = at::MemoryFormat::ChannelsLast;

// A kernel among what autograd keeps from forward to backward.
struct KeptKernel : torch::CustomClassHolder {
  explicit KeptKernel(std::shared_ptr<ConvolutionKernel> kept) : kernel(std::move(kept)) {}
  std::shared_ptr<ConvolutionKernel> kernel;
};

class Convolve : public torch::autograd::Function<Convolve> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& given, const torch::Tensor& weight,
                               const c10::optional<torch::Tensor>& bias,
                               const ConvolutionGeometry& geometry,
                               const std::shared_ptr<ConvolutionKernel>& kernel) {
    const auto input = given.contiguous(channels_last);
    const auto size = geometry.output_size();
    auto output = torch::empty({geometry.batch, geometry.outputs, size[0], size[1]},
                               input.options().memory_format(channels_last));
    onednn::checked("forward of a convolution", [&] {
      kernel->forward(input, weight.contiguous(), bias.value_or(torch::Tensor()), output);
    });
    context->save_for_backward({input, weight});
    context->saved_data["kernel"] =
        c10::IValue::make_capsule(c10::make_intrusive<KeptKernel>(kernel));
    context->saved_data["bias"] = bias.has_value();
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    if (torch::GradMode::is_enabled())
      throw Error("nn: convolution: has no second derivatives; drop create_graph");
    const auto saved = context->get_saved_variables();
    const auto &input = saved[0], &weight = saved[1];
    const auto capsule = context->saved_data["kernel"].toCapsule();
    auto& kernel = *static_cast<KeptKernel&>(*capsule).kernel;
    const auto gradient = gradients[0].contiguous(channels_last);

    torch::Tensor of_input, of_weight, of_bias;
    onednn::checked("backward of a convolution", [&] {
      const bool has_bias = context->saved_data["bias"].toBool();
      if (context->needs_input_grad(1) || (has_bias && context->needs_input_grad(2))) {
        of_weight = torch::empty(weight.sizes(), weight.options());
        if (has_bias) of_bias = torch::empty({weight.size(0)}, weight.options());
        kernel.backward_weight(input, gradient, of_weight, of_bias);
      }
      if (context->needs_input_grad(0)) {
        of_input = torch::empty(input.sizes(), input.options().memory_format(channels_last));
        kernel.backward_input(gradient, weight.contiguous(), of_input);
      }
    });
    return {of_input, of_weight, of_bias, {}, {}};
  }
};

bool is_for_kernels(const torch::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == torch::kFloat &&
         tensor.layout() == torch::kStrided;
}

bool is_autocast() {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::AutocastCPU);
}

// None where torch::nn::Conv2d has to compute, or to refuse.
std::optional<ConvolutionGeometry> geometry_of(const torch::nn::detail::ConvNdOptions<2>& options,
                                               const torch::Tensor& input,
                                               const torch::Tensor& weight) {
  // LibTorch's variants are c10's in version 1 and std's in version 2.
  const auto* padding = get_if<torch::ExpandingArray<2>>(&options.padding());
  const bool has_zeros = get_if<torch::enumtype::kZeros>(&options.padding_mode()) != nullptr;
  if (padding == nullptr || !has_zeros || options.groups() != 1) return std::nullopt;
  if (*options.dilation() != *torch::ExpandingArray<2>(1)) return std::nullopt;
  if (!is_for_kernels(input) || !is_for_kernels(weight) || is_autocast()) return std::nullopt;
  if (input.dim() != 4 || input.numel() == 0 || input.size(1) != options.in_channels())
    return std::nullopt;

  const auto lengths = [](const torch::ExpandingArray<2>& two) {
    return std::vector<std::int64_t>(two->begin(), two->end());
  };
  ConvolutionGeometry geometry{.batch = input.size(0),
                               .inputs = input.size(1),
                               .outputs = options.out_channels(),
                               .size = {input.size(2), input.size(3)},
                               .kernel = lengths(options.kernel_size()),
                               .stride = lengths(options.stride()),
                               .padding = lengths(*padding),
                               .bias = options.bias()};
  for (std::size_t i = 0; i < 2; ++i) {
    if (geometry.size[i] + 2 * geometry.padding[i] < geometry.kernel[i]) return std::nullopt;
  }
  return geometry;
}

}  // namespace

Convolution2dImpl::Convolution2dImpl(const torch::nn::Conv2dOptions& options_)
    : Conv2dImpl(options_), kernels_(std::make_shared<ConvolutionKernels>()) {}

torch::Tensor Convolution2dImpl::forward(const torch::Tensor& input) {
  if (PlainKernels::are_wanted()) return Conv2dImpl::forward(input);
  const auto geometry = geometry_of(options, input, weight);
  const auto kernel = geometry ? kernels_->find(*geometry) : nullptr;
  if (!kernel) return Conv2dImpl::forward(input);
  // An undefined tensor can't be an argument, one that isn't there can.
  const auto given = bias.defined() ? c10::make_optional(bias) : c10::nullopt;
  return Convolve::apply(input, weight, given, *geometry, kernel);
}

}  // namespace kolo
