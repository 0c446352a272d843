#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/parallel/halo_exchange.h"
#include "kolo/parallel/spatial_layers.h"
#include "kolo/parallel/spatial_step.h"

namespace kolo {

namespace {

template <std::size_t D>
using NdOptions = torch::nn::detail::ConvNdOptions<D>;

template <std::size_t D>
NdOptions<D> nd_options(const torch::nn::ConvOptions<D>& options) {
  return NdOptions<D>(options.in_channels(), options.out_channels(), options.kernel_size())
      .stride(options.stride())
      .padding(options.padding())
      .dilation(options.dilation())
      .groups(options.groups())
      .bias(options.bias())
      .padding_mode(options.padding_mode());
}

template <std::size_t D>
NdOptions<D> nd_options(const torch::nn::ConvTransposeOptions<D>& options) {
  return NdOptions<D>(options.in_channels(), options.out_channels(), options.kernel_size())
      .transposed(true)
      .stride(options.stride())
      .padding(options.padding())
      .output_padding(options.output_padding())
      .dilation(options.dilation())
      .groups(options.groups())
      .bias(options.bias())
      .padding_mode(options.padding_mode());
}

// LibTorch's variants are c10's in version 1 and std's in version 2; get_if is found in either.
template <std::size_t D>
bool is_circular(const NdOptions<D>& options) {
  return get_if<torch::enumtype::kCircular>(&options.padding_mode()) != nullptr;
}

template <std::size_t D>
void require_known_padding(const NdOptions<D>& options) {
  const bool has_zeros = get_if<torch::enumtype::kZeros>(&options.padding_mode()) != nullptr;
  if (has_zeros || (is_circular(options) && !options.transposed())) return;
  throw Error(fmt::format("parallel: spatial {}convolution: expected a padding mode of zeros{}",
                          options.transposed() ? "transposed " : "",
                          options.transposed() ? "" : " or circular"));
}

template <std::size_t D>
std::int64_t padding_along(const NdOptions<D>& options, std::size_t axis) {
  if (const auto* given = get_if<torch::ExpandingArray<D>>(&options.padding()))
    return (**given)[axis];
  if (get_if<torch::enumtype::kSame>(&options.padding()) == nullptr) return 0;
  const auto both = (*options.dilation())[axis] * ((*options.kernel_size())[axis] - 1);
  if (both % 2 == 0) return both / 2;
  throw Error(fmt::format(
      "parallel: spatial convolution: padding `same` of a kernel of {}, dilation {} adds {} rows, "
      "more on one side than on the other; expected an even number",
      (*options.kernel_size())[axis], (*options.dilation())[axis], both));
}

template <std::size_t D>
std::array<AxisLayer, D> axis_layers(const NdOptions<D>& options) {
  std::array<AxisLayer, D> layers;
  for (std::size_t i = 0; i < D; ++i) {
    layers[i] = {.kernel = (*options.kernel_size())[i],
                 .stride = (*options.stride())[i],
                 .padding = padding_along(options, i),
                 .dilation = (*options.dilation())[i],
                 .is_transposed = options.transposed(),
                 .output_padding = options.transposed() ? (*options.output_padding())[i] : 0,
                 .is_periodic = is_circular(options)};
  }
  return layers;
}

// By their names rather than torch::convolution, which autocast doesn't know.
template <std::size_t D>
torch::Tensor convolved(const torch::Tensor& input, const torch::Tensor& weight,
                        const torch::Tensor& bias, const NdOptions<D>& options,
                        const LayerStep& step) {
  const auto &stride = *options.stride(), &dilation = *options.dilation();
  const c10::IntArrayRef padding(step.padding);
  const auto groups = options.groups();
  if constexpr (D == 1) {
    return torch::conv1d(input, weight, bias, stride, padding, dilation, groups);
  } else if constexpr (D == 2) {
    return torch::conv2d(input, weight, bias, stride, padding, dilation, groups);
  } else {
    return torch::conv3d(input, weight, bias, stride, padding, dilation, groups);
  }
}

template <std::size_t D>
torch::Tensor convolved_back(const torch::Tensor& input, const torch::Tensor& weight,
                             const torch::Tensor& bias, const NdOptions<D>& options,
                             const LayerStep& step) {
  const auto &stride = *options.stride(), &dilation = *options.dilation();
  const auto &padding = step.padding, &more = step.output_padding;
  const auto groups = options.groups();
  if constexpr (D == 1) {
    return torch::conv_transpose1d(input, weight, bias, stride, padding, more, groups, dilation);
  } else if constexpr (D == 2) {
    return torch::conv_transpose2d(input, weight, bias, stride, padding, more, groups, dilation);
  } else {
    return torch::conv_transpose3d(input, weight, bias, stride, padding, more, groups, dilation);
  }
}

}  // namespace

template <std::size_t D>
SpatialConvImpl<D>::SpatialConvImpl(DeviceMesh mesh, const torch::nn::ConvOptions<D>& options_)
    : torch::nn::ConvNdImpl<D, SpatialConvImpl<D>>(nd_options(options_)), mesh_(std::move(mesh)) {
  require_known_padding(this->options);
  (void)axis_layers(this->options);
}

template <std::size_t D>
SpatialPart SpatialConvImpl<D>::forward(const SpatialPart& input) {
  const auto layers = axis_layers(this->options);
  auto step = plan_step(mesh_, input, layers, "spatial convolution");
  const auto extended = extend_halos(mesh_, rows_as(mesh_, input, step.input), step.halos);
  return {convolved(extended, this->weight, this->bias, this->options, step),
          std::move(step.output)};
}

template <std::size_t D>
SpatialConvTransposeImpl<D>::SpatialConvTransposeImpl(
    DeviceMesh mesh, const torch::nn::ConvTransposeOptions<D>& options_)
    : torch::nn::ConvNdImpl<D, SpatialConvTransposeImpl<D>>(nd_options(options_)),
      mesh_(std::move(mesh)) {
  require_known_padding(this->options);
}

template <std::size_t D>
SpatialPart SpatialConvTransposeImpl<D>::forward(const SpatialPart& input) {
  return folded(input, nullptr);
}

template <std::size_t D>
SpatialPart SpatialConvTransposeImpl<D>::forward_like(const SpatialPart& input,
                                                      const SpatialPart& like) {
  return folded(input, &like);
}

template <std::size_t D>
SpatialPart SpatialConvTransposeImpl<D>::folded(const SpatialPart& input, const SpatialPart* like) {
  const auto layers = axis_layers(this->options);
  auto step = plan_step(mesh_, input, layers, "spatial transposed convolution", like);
  const auto rows = rows_as(mesh_, input, step.input);
  // Rows that are added up would have the bias twice.
  const bool is_folded = !step.halos.empty() && this->bias.defined();
  const auto made = convolved_back(rows, this->weight, is_folded ? torch::Tensor() : this->bias,
                                   this->options, step);
  auto output = fold_halos(mesh_, made, step.halos);
  if (is_folded) {
    std::vector<std::int64_t> by_channel(D + 2, 1);
    by_channel[1] = -1;
    output = output + this->bias.to(output.scalar_type()).view(by_channel);
  }
  return {std::move(output), std::move(step.output)};
}

template class SpatialConvImpl<1>;
template class SpatialConvImpl<2>;
template class SpatialConvImpl<3>;
template class SpatialConvTransposeImpl<1>;
template class SpatialConvTransposeImpl<2>;
template class SpatialConvTransposeImpl<3>;

}  // namespace kolo
