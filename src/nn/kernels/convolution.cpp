#include "kolo/nn/convolution.h"

#include <torch/nn/modules/conv.h>
#include <algorithm>
#include <optional>
#include <vector>

#include "kolo/nn/autocast.h"
#include "nn/kernels/convolve.h"
#include "nn/kernels/kernel_cache.h"
#include "nn/kernels/plain_kernels.h"
#include "nn/kernels/taps_first.h"

namespace kolo {

namespace {

bool is_for_kernels(const torch::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == torch::kFloat &&
         tensor.layout() == torch::kStrided;
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
  if (!is_for_kernels(input) || !is_for_kernels(weight)) return false;
  if (!weight.is_contiguous() && !is_taps_first(weight)) return false;
  return input.dim() == D + 2 && input.numel() > 0 && input.size(1) == options.in_channels();
}

// None where torch::nn's layer has to compute, or to refuse.
template <std::size_t D>
std::optional<ConvolutionGeometry> geometry_of(const torch::nn::detail::ConvNdOptions<D>& options,
                                               const torch::Tensor& input,
                                               const torch::Tensor& weight) {
  if (!is_known(options, input, weight)) return std::nullopt;
  ConvolutionGeometry geometry{
      .batch = input.size(0),
      .inputs = input.size(1),
      .outputs = options.out_channels(),
      .size = std::vector<std::int64_t>(input.sizes().begin() + 2, input.sizes().end()),
      .kernel = lengths(options.kernel_size()),
      .stride = lengths(options.stride()),
      .padding = lengths(*padding_of(options)),
      .bias = options.bias(),
      .has_taps_first = !weight.is_contiguous()};
  for (std::size_t i = 0; i < D; ++i) {
    if (geometry.size[i] + 2 * geometry.padding[i] < geometry.kernel[i]) return std::nullopt;
  }
  return geometry;
}

// Of the convolution whose data gradient a transposed one is: its input is the layer's output.
template <std::size_t D>
std::optional<ConvolutionGeometry> geometry_of_transposed(
    const torch::nn::detail::ConvNdOptions<D>& options, const torch::Tensor& input,
    const torch::Tensor& weight) {
  if (!is_known(options, input, weight)) return std::nullopt;
  ConvolutionGeometry geometry{.batch = input.size(0),
                               .inputs = options.out_channels(),
                               .outputs = input.size(1),
                               .kernel = lengths(options.kernel_size()),
                               .stride = lengths(options.stride()),
                               .padding = lengths(*padding_of(options)),
                               .bias = false,
                               .has_taps_first = !weight.is_contiguous()};
  for (std::size_t i = 0; i < D; ++i) {
    const auto length = (input.size(static_cast<std::int64_t>(i) + 2) - 1) * geometry.stride[i] -
                        2 * geometry.padding[i] + geometry.kernel[i];
    if (length < 1) return std::nullopt;
    geometry.size.push_back(length);
  }
  return geometry;
}

// A value as it is in the type that LibTorch casts to, in float32.
torch::Tensor rounded(const torch::Tensor& tensor, std::optional<at::ScalarType> type) {
  return type ? tensor.to(*type).to(torch::kFloat) : tensor;
}

// An undefined tensor can't be an argument of autograd's functions, one that isn't there can.
c10::optional<torch::Tensor> if_defined(const torch::Tensor& tensor) {
  return tensor.defined() ? c10::make_optional(tensor) : c10::nullopt;
}

std::shared_ptr<ConvolutionKernel> kernel_for(ConvolutionKernels& kernels,
                                              const std::optional<ConvolutionGeometry>& geometry) {
  return geometry ? kernels.find(*geometry) : nullptr;
}

}  // namespace

Convolution2dImpl::Convolution2dImpl(const torch::nn::Conv2dOptions& options_)
    : Conv2dImpl(options_), kernels_(std::make_shared<ConvolutionKernels>()) {}

torch::Tensor Convolution2dImpl::forward(const torch::Tensor& input) {
  if (PlainKernels::are_wanted() || autocast_type()) return Conv2dImpl::forward(input);
  const auto geometry = geometry_of(options, input, weight);
  const auto kernel = kernel_for(*kernels_, geometry);
  if (!kernel) return Conv2dImpl::forward(input);
  return convolve(input, weight, if_defined(bias), *geometry, kernel);
}

Convolution3dImpl::Convolution3dImpl(const torch::nn::Conv3dOptions& options_)
    : Conv3dImpl(options_), kernels_(std::make_shared<ConvolutionKernels>()) {}

torch::Tensor Convolution3dImpl::forward(const torch::Tensor& input) {
  if (PlainKernels::are_wanted()) return Conv3dImpl::forward(input);
  const auto type = autocast_type();
  const auto given = rounded(input, type);
  const auto geometry = geometry_of(options, given, weight);
  const auto kernel = kernel_for(*kernels_, geometry);
  if (!kernel) return Conv3dImpl::forward(input);
  const auto made = convolve(given, rounded(weight, type), if_defined(bias), *geometry, kernel);
  return type ? made.to(*type) : made;
}

ConvolutionTranspose3dImpl::ConvolutionTranspose3dImpl(
    const torch::nn::ConvTranspose3dOptions& options_)
    : ConvTranspose3dImpl(options_), kernels_(std::make_shared<ConvolutionKernels>()) {}

torch::Tensor ConvolutionTranspose3dImpl::forward(const torch::Tensor& input) {
  if (PlainKernels::are_wanted()) return ConvTranspose3dImpl::forward(input);
  const auto type = autocast_type();
  const auto given = rounded(input, type);
  const auto geometry = geometry_of_transposed(options, given, weight);
  const auto kernel = kernel_for(*kernels_, geometry);
  if (!kernel) return ConvTranspose3dImpl::forward(input);
  const auto made =
      convolve_transposed(given, rounded(weight, type), if_defined(bias), *geometry, kernel);
  return type ? made.to(*type) : made;
}

void keep_taps_first(torch::Tensor& weight) {
  const torch::NoGradGuard no_gradient;
  weight.set_data(taps_first(weight));
}

}  // namespace kolo
