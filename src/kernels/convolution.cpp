#include "kolo/kernels/convolution.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <ATen/record_function.h>
#include <torch/nn/modules/conv.h>

#include "base/second_derivatives.h"
#include "kernels/channel_sums.h"
#include "kernels/convolution_kernel.h"
#include "kernels/fused.h"
#include "kernels/kept_kernel.h"
#include "kolo/kernels/autocast.h"

namespace kolo {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

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

// A convolution by a kernel, whose geometry is given, or the transposed one: the data gradient of
// that convolution (without a bias), from `outputs` channels to `inputs` and from the small size to
// the large one, whose gradients are that one's forward and weight gradient. Tensors are [N, C,
// ...] of any strides; the result is in channels-last memory. `bias` is none or a value per channel
// of the result. No second derivatives.
class Convolve : public torch::autograd::Function<Convolve> {
 public:
  static torch::Tensor forward(AutogradContext* context, const torch::Tensor& given,
                               const torch::Tensor& weight,
                               const c10::optional<torch::Tensor>& bias,
                               const ConvolutionGeometry& geometry,
                               const std::shared_ptr<ConvolutionKernel>& kernel,
                               bool is_transposed) {
    RECORD_FUNCTION("kolo::convolution", (std::vector<c10::IValue>{given, weight}));
    const auto input = in_order(given, kernel->order());
    const auto channels = is_transposed ? geometry.inputs : geometry.outputs;
    const auto size = is_transposed ? geometry.size : geometry.output_size();
    auto output = room_for(geometry.batch, channels, size, input, kernel->order());
    if (is_transposed) {
      kernel->backward_input(input, weight, output);
      if (bias.has_value()) add_bias(output, channels, bias.value().detach());
    } else {
      kernel->forward(input, weight, bias.value_or(torch::Tensor()), output);
    }
    context->save_for_backward({input, weight});
    KeptKernel::keep(kernel, *context);
    context->saved_data["bias"] = bias.has_value();
    context->saved_data["transposed"] = is_transposed;
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    refuse_second_derivatives("nn: convolution");
    const auto kernel = KeptKernel::of(*context);
    const auto saved = context->get_saved_variables();
    const auto &input = saved[0], &weight = saved[1];
    RECORD_FUNCTION("kolo::convolution_backward", (std::vector<c10::IValue>{input, weight}));
    const auto gradient = in_order(gradients[0], kernel->order());
    const bool is_transposed = context->saved_data["transposed"].toBool();
    torch::Tensor of_input, of_weight, of_bias;
    if (context->needs_input_grad(1)) {
      of_weight = destination_of_gradient(weight);
      kernel->backward_weight(is_transposed ? gradient : input, is_transposed ? input : gradient,
                              of_weight);
    }
    if (context->needs_input_grad(0)) {
      of_input = torch::empty_like(input);
      if (is_transposed)
        kernel->forward(gradient, weight, {}, of_input);
      else
        kernel->backward_input(gradient, weight, of_input);
    }
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2))
      of_bias = sum_by_channel(gradient, kernel->order());
    return {of_input, of_weight, of_bias, {}, {}, {}};
  }
};

bool is_for_kernels(const torch::Tensor& tensor, torch::ScalarType type) {
  return tensor.device().is_cpu() && tensor.scalar_type() == type &&
         tensor.layout() == torch::kStrided;
}

// Casts float32 input to autocast's type, as LibTorch's layers do.
torch::Tensor in_type_of_autocast(const torch::Tensor& input) {
  const auto type = autocast_type();
  return type && input.scalar_type() == torch::kFloat ? input.to(*type) : input;
}

template <std::size_t D>
std::vector<std::int64_t> lengths(const torch::ExpandingArray<D>& values) {
  return std::vector<std::int64_t>(values->begin(), values->end());
}

// LibTorch's variants are c10's in version 1 and std's in version 2.
template <std::size_t D>
const torch::ExpandingArray<D>* padding_of(const torch::nn::detail::ConvNdOptions<D>& options) {
  return get_if<torch::ExpandingArray<D>>(&options.padding());
}

// Whether a layer's options, its weight and an input are such that the kernels know them.
template <std::size_t D>
bool is_known(const torch::nn::detail::ConvNdOptions<D>& options, const torch::Tensor& input,
              const torch::Tensor& weight) {
  const bool has_zeros = get_if<torch::enumtype::kZeros>(&options.padding_mode()) != nullptr;
  if (padding_of(options) == nullptr || !has_zeros || options.groups() != 1) return false;
  if (*options.dilation() != *torch::ExpandingArray<D>(1)) return false;
  if (*options.output_padding() != *torch::ExpandingArray<D>(0)) return false;
  if (!is_for_kernels(input, autocast_type().value_or(torch::kFloat))) return false;
  if (!is_for_kernels(weight, torch::kFloat)) return false;
  if (!weight.is_contiguous() && !is_taps_first(weight)) return false;
  return input.dim() == D + 2 && input.numel() > 0 && input.size(1) == options.in_channels();
}

template <std::size_t D>
std::vector<std::int64_t> own_padding(const torch::nn::detail::ConvNdOptions<D>& options) {
  const auto* const padding = padding_of(options);
  return padding == nullptr ? std::vector<std::int64_t>{} : lengths(*padding);
}

// Geometry for kolo's kernels; none: torch::nn computes or refuses. A transposed layer gets the
// geometry of the convolution whose data gradient it is (sizes swapped).
template <std::size_t D>
std::optional<ConvolutionGeometry> geometry_of(const torch::nn::detail::ConvNdOptions<D>& options,
                                               const std::vector<std::int64_t>& padding,
                                               const torch::Tensor& input,
                                               const torch::Tensor& weight) {
  if (!is_known(options, input, weight)) return std::nullopt;
  const bool is_transposed = options.transposed();
  ConvolutionGeometry geometry{.batch = input.size(0),
                               .inputs = is_transposed ? options.out_channels() : input.size(1),
                               .outputs = is_transposed ? input.size(1) : options.out_channels(),
                               .kernel = lengths(options.kernel_size()),
                               .stride = lengths(options.stride()),
                               .padding = padding,
                               .bias = !is_transposed && options.bias(),
                               .has_taps_first = !weight.is_contiguous(),
                               .type = input.scalar_type()};
  for (std::size_t i = 0; i < D; ++i) {
    const auto given = input.size(static_cast<std::int64_t>(i) + 2);
    const auto both_paddings = 2 * padding[i];
    const auto length = is_transposed
                            ? (given - 1) * geometry.stride[i] - both_paddings + geometry.kernel[i]
                            : given;
    if (length < 1 || length + both_paddings < geometry.kernel[i]) return std::nullopt;
    geometry.size.push_back(length);
  }
  return geometry;
}

// The layer's output by one of kolo's kernels; undefined if torch::nn has to compute it.
template <std::size_t D>
torch::Tensor by_kernel(ConvolutionKernels& kernels,
                        const torch::nn::detail::ConvNdOptions<D>& options,
                        const std::vector<std::int64_t>& padding, const torch::Tensor& input,
                        const torch::Tensor& weight, const torch::Tensor& bias) {
  if (PlainKernels::are_wanted()) return {};
  const auto given = in_type_of_autocast(input);
  const auto geometry = geometry_of(options, padding, given, weight);
  const auto kernel = geometry ? kernels.find(*geometry) : nullptr;
  if (!kernel) return {};
  return Convolve::apply(given, weight, if_defined(bias), *geometry, kernel, options.transposed());
}

std::vector<std::int64_t> padding_left(const LayerPart& part) {
  return {part.padding().begin(), part.padding().end()};
}

}  // namespace

Convolution2dImpl::Convolution2dImpl(const torch::nn::Conv2dOptions& options_)
    : Conv2dImpl(options_), kernels_(std::make_shared<ConvolutionKernels>()) {}

torch::Tensor Convolution2dImpl::forward(const torch::Tensor& input) {
  const auto made = by_kernel(*kernels_, options, own_padding(options), input, weight, bias);
  return made.defined() ? made : Conv2dImpl::forward(input);
}

Convolution3dImpl::Convolution3dImpl(const torch::nn::Conv3dOptions& options_)
    : Conv3dImpl(options_), kernels_(std::make_shared<ConvolutionKernels>()) {}

torch::Tensor Convolution3dImpl::forward(const torch::Tensor& input) {
  if (!part_) {
    const auto made = by_kernel(*kernels_, options, own_padding(options), input, weight, bias);
    return made.defined() ? made : Conv3dImpl::forward(input);
  }
  const auto rows = part_->input_rows(in_type_of_autocast(input));
  const auto padding = padding_left(*part_);
  auto made = by_kernel(*kernels_, options, padding, rows, weight, bias);
  if (!made.defined())
    made = torch::conv3d(rows, weight, bias, options.stride(), padding, options.dilation(),
                         options.groups());
  return part_->output_rows(made);
}

ConvolutionTranspose3dImpl::ConvolutionTranspose3dImpl(
    const torch::nn::ConvTranspose3dOptions& options_)
    : ConvTranspose3dImpl(options_), kernels_(std::make_shared<ConvolutionKernels>()) {}

torch::Tensor ConvolutionTranspose3dImpl::forward(const torch::Tensor& input) {
  if (!part_) {
    const auto made = by_kernel(*kernels_, options, own_padding(options), input, weight, bias);
    return made.defined() ? made : ConvTranspose3dImpl::forward(input);
  }
  const auto rows = part_->input_rows(in_type_of_autocast(input));
  const auto padding = padding_left(*part_);
  // Rows that are added up would have the bias twice.
  const bool is_bias_last = part_->adds_rows() && bias.defined();
  const auto first_bias = is_bias_last ? torch::Tensor() : bias;
  auto made = by_kernel(*kernels_, options, padding, rows, weight, first_bias);
  if (!made.defined())
    made = torch::conv_transpose3d(rows, weight, first_bias, options.stride(), padding,
                                   options.output_padding(), options.groups(), options.dilation());
  made = part_->output_rows(made);
  return is_bias_last ? made.add_(bias.to(made.scalar_type()).view({1, -1, 1, 1, 1})) : made;
}

void keep_taps_first(torch::Tensor& weight) {
  const torch::NoGradGuard no_gradient;
  weight.set_data(taps_first(weight));
}

namespace {

template <typename Layer>
void keep_taps_first_in(torch::nn::Module& module) {
  constexpr std::int64_t least_channels = 16;
  auto* const layer = module.as<Layer>();
  if (layer != nullptr && std::min(layer->weight.size(0), layer->weight.size(1)) >= least_channels)
    keep_taps_first(layer->weight);
}

}  // namespace

void keep_taps_first(torch::nn::Module& network) {
  if (onednn_description().empty()) return;
  network.apply([](torch::nn::Module& module) {
    keep_taps_first_in<Convolution2dImpl>(module);
    keep_taps_first_in<Convolution3dImpl>(module);
    keep_taps_first_in<ConvolutionTranspose3dImpl>(module);
  });
}

}  // namespace kolo
