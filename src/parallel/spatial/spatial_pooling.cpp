#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/parallel/differentiable_collectives.h"
#include "kolo/parallel/halo_exchange.h"
#include "kolo/parallel/spatial_layers.h"
#include "kolo/parallel/spatial_step.h"

namespace kolo {

namespace {

void refuse_ceil_mode(bool ceil_mode, std::string_view name) {
  if (!ceil_mode) return;
  throw Error(fmt::format(
      "parallel: {}: ceil_mode is on, whose last windows are cut off in other ways; expected off",
      name));
}

// Of either kind of pooling; `dilation` null for those that have none.
template <std::size_t D, typename Options>
std::array<AxisLayer, D> pooling_layers(const Options& options,
                                        const torch::ExpandingArray<D>* dilation) {
  std::array<AxisLayer, D> layers;
  for (std::size_t i = 0; i < D; ++i) {
    layers[i] = {.kernel = (*options.kernel_size())[i],
                 .stride = (*options.stride())[i],
                 .padding = (*options.padding())[i],
                 .dilation = dilation ? (**dilation)[i] : 1};
  }
  return layers;
}

template <std::size_t D>
torch::Tensor maxima(const torch::Tensor& input, const torch::nn::MaxPoolOptions<D>& options,
                     c10::IntArrayRef padding) {
  const auto &kernel = *options.kernel_size(), &stride = *options.stride(),
             &dilation = *options.dilation();
  if constexpr (D == 1) {
    return torch::max_pool1d(input, kernel, stride, padding, dilation);
  } else if constexpr (D == 2) {
    return torch::max_pool2d(input, kernel, stride, padding, dilation);
  } else {
    return torch::max_pool3d(input, kernel, stride, padding, dilation);
  }
}

// Sums over windows, divided by the windows' size.
template <std::size_t D>
torch::Tensor means(const torch::Tensor& input, const torch::nn::AvgPoolOptions<D>& options,
                    c10::IntArrayRef padding) {
  const auto &kernel = *options.kernel_size(), &stride = *options.stride();
  if constexpr (D == 1) {
    return torch::avg_pool1d(input, kernel, stride, padding);
  } else if constexpr (D == 2) {
    return torch::avg_pool2d(input, kernel, stride, padding);
  } else {
    return torch::avg_pool3d(input, kernel, stride, padding);
  }
}

// 1 in the sample, 0 beyond its borders: for divisors that leave out padding.
torch::Tensor inside_of(const DeviceMesh& mesh, const torch::Tensor& extended,
                        std::span<const HaloAxis> halos) {
  std::vector<std::int64_t> shape = extended.sizes().vec();
  shape[0] = shape[1] = 1;
  const auto inside = torch::ones(shape, extended.options());
  for (const auto& [axis, cut] : halos) {
    const auto place = cut.input.ranks() > 1 ? mesh.coordinate(spatial_axes[axis]) : 0;
    const auto rows = cut.extended(place);
    const auto dimension = static_cast<std::int64_t>(axis) + 2;
    const auto below = std::max<std::int64_t>(0, -rows.begin);
    const auto above = std::max<std::int64_t>(0, rows.end - cut.input.length());
    inside.narrow(dimension, 0, below).zero_();
    inside.narrow(dimension, rows.size() - above, above).zero_();
  }
  return inside;
}

template <std::size_t D>
double window_size(const torch::nn::AvgPoolOptions<D>& options) {
  double size = 1;
  for (const auto length : *options.kernel_size()) size *= static_cast<double>(length);
  return size;
}

template <typename Options>
void print_pooling(std::ostream& stream, std::string_view name, std::size_t dimensions,
                   const Options& options, const DeviceMesh& mesh) {
  stream << "kolo::" << name << dimensions << "d(kernel_size=" << options.kernel_size()
         << ", stride=" << options.stride() << ", padding=" << options.padding()
         << ", mesh=" << mesh.shape().describe() << ")";
}

}  // namespace

template <std::size_t D>
SpatialMaxPoolImpl<D>::SpatialMaxPoolImpl(DeviceMesh mesh,
                                          const torch::nn::MaxPoolOptions<D>& options_)
    : options(options_), mesh_(std::move(mesh)) {
  refuse_ceil_mode(options.ceil_mode(), "spatial max pooling");
}

template <std::size_t D>
void SpatialMaxPoolImpl<D>::pretty_print(std::ostream& stream) const {
  print_pooling(stream, "SpatialMaxPool", D, options, mesh_);
}

template <std::size_t D>
SpatialPart SpatialMaxPoolImpl<D>::forward(const SpatialPart& input) {
  const auto layers = pooling_layers<D>(options, &options.dilation());
  auto step = plan_step(mesh_, input, layers, "spatial max pooling");
  constexpr auto lowest = -std::numeric_limits<double>::infinity();
  const auto extended = extend_halos(mesh_, rows_as(mesh_, input, step.input), step.halos, lowest);
  return {maxima(extended, options, step.padding), std::move(step.output)};
}

template <std::size_t D>
SpatialAvgPoolImpl<D>::SpatialAvgPoolImpl(DeviceMesh mesh,
                                          const torch::nn::AvgPoolOptions<D>& options_)
    : options(options_), mesh_(std::move(mesh)) {
  refuse_ceil_mode(options.ceil_mode(), "spatial average pooling");
}

template <std::size_t D>
void SpatialAvgPoolImpl<D>::pretty_print(std::ostream& stream) const {
  print_pooling(stream, "SpatialAvgPool", D, options, mesh_);
}

template <std::size_t D>
SpatialPart SpatialAvgPoolImpl<D>::forward(const SpatialPart& input) {
  const auto layers = pooling_layers<D>(options, nullptr);
  auto step = plan_step(mesh_, input, layers, "spatial average pooling");
  const auto extended = extend_halos(mesh_, rows_as(mesh_, input, step.input), step.halos);
  auto output = means(extended, options, step.padding);
  if (options.divisor_override()) {
    output = output * (window_size(options) / static_cast<double>(*options.divisor_override()));
  } else if (!options.count_include_pad()) {
    output = output / means(inside_of(mesh_, extended, step.halos), options, step.padding);
  }
  return {std::move(output), std::move(step.output)};
}

void SpatialGlobalAvgPoolImpl::pretty_print(std::ostream& stream) const {
  stream << "kolo::SpatialGlobalAvgPool(mesh=" << mesh_.shape().describe() << ")";
}

SpatialPart SpatialGlobalAvgPoolImpl::forward(const SpatialPart& input) {
  std::vector<std::int64_t> dimensions;
  double rows = static_cast<double>(copies_of(mesh_, input));
  std::vector<PartAxis> axes;
  for (std::size_t i = 0; i < input.axes.size(); ++i) {
    const auto& cut = input.axes[i].cut;
    dimensions.push_back(static_cast<std::int64_t>(i) + 2);
    rows *= static_cast<double>(cut.length());
    // The one row is the first rank's.
    AxisCut single{std::vector<std::int64_t>(cut.bounds.size(), 1)};
    single.bounds.front() = 0;
    axes.push_back({std::move(single), cut.ranks() > 1});
  }
  const auto sums = input.tensor.sum(dimensions, /*keepdim=*/true);
  return {differentiable::all_reduce(mesh_.spatial(), sums / rows), std::move(axes)};
}

template class SpatialMaxPoolImpl<1>;
template class SpatialMaxPoolImpl<2>;
template class SpatialMaxPoolImpl<3>;
template class SpatialAvgPoolImpl<1>;
template class SpatialAvgPoolImpl<2>;
template class SpatialAvgPoolImpl<3>;

}  // namespace kolo
