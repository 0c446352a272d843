#include "nn/kernels/convolution_kernel.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "kolo/base/checked.h"
#include "kolo/base/gradient_destination.h"
#include "kolo/nn/convolution.h"
#include "nn/kernels/matrices.h"

namespace kolo {

namespace {

std::vector<std::int64_t> order_of(const torch::Tensor& weight) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(weight.dim()));
  std::iota(order.begin(), order.end() - 2, 2);
  order[order.size() - 2] = 1;
  order[order.size() - 1] = 0;
  return order;
}

bool has_few_positions(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t least_batch = 8;
  return checked_product<std::int64_t>(geometry.size) <= most_tap_positions &&
         checked_product<std::int64_t>(geometry.kernel) > 1 &&
         std::min(geometry.inputs, geometry.outputs) >= least_tap_channels &&
         (geometry.has_taps_first || geometry.batch >= least_batch);
}

// The gradient of such an input (the output of the last transposed convolution of a U-Net).
bool has_few_inputs(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t most_inputs = 8, least_outputs = 16;
  return geometry.size.size() == 3 && geometry.inputs <= most_inputs &&
         geometry.outputs >= least_outputs;
}

// Vectors of 16 channels would be partly empty.
bool has_odd_channels(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t full = 16, most = 32;
  return geometry.outputs % full != 0 && std::max(geometry.inputs, geometry.outputs) <= most;
}

}  // namespace

bool has_batch_last(const torch::Tensor& images) {
  return images.permute({1, 2, 3, 0}).is_contiguous();
}

torch::Tensor with_batch_last(const torch::Tensor& images) {
  return has_batch_last(images) ? images
                                : images.permute({1, 2, 3, 0}).contiguous().permute({3, 0, 1, 2});
}

torch::Tensor empty_with_batch_last(at::IntArrayRef shape, const torch::TensorOptions& options) {
  return torch::empty({shape[1], shape[2], shape[3], shape[0]}, options).permute({3, 0, 1, 2});
}

torch::Tensor taps_first(const torch::Tensor& weight) {
  const auto order = order_of(weight);
  std::vector<std::int64_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return weight.permute(order).contiguous().permute(back);
}

bool is_taps_first(const torch::Tensor& weight) {
  return weight.permute(order_of(weight)).is_contiguous();
}

void sum_by_channel(const torch::Tensor& tensor, std::int64_t channels, MemoryOrder order,
                    const torch::Tensor& sums) {
  if (!sums.defined()) return;
  const auto others = tensor.numel() / channels;
  const bool is_last = order == MemoryOrder::channels_last;
  const auto matrix = is_last ? tensor.as_strided({others, channels}, {channels, 1})
                              : tensor.as_strided({channels, others}, {others, 1});
  auto result = sums;
  torch::sum_out(result, matrix, at::IntArrayRef({is_last ? 0 : 1}), /*keepdim=*/false,
                 torch::kFloat);
}

torch::Tensor destination_of_gradient(const torch::Tensor& parameter) {
  const auto accumulator = torch::autograd::impl::try_get_grad_accumulator(parameter);
  if (!accumulator) return torch::empty_like(parameter);
  for (const auto& hook : accumulator->post_hooks()) {
    auto* const destination = dynamic_cast<GradientDestination*>(hook.get());
    if (destination == nullptr) continue;
    if (auto memory = destination->take()) {
      return torch::from_blob(
          memory.get(), parameter.sizes(), parameter.strides(), [memory](void*) {},
          parameter.options().requires_grad(false));
    }
  }
  return torch::empty_like(parameter);
}

std::vector<std::int64_t> ConvolutionGeometry::output_size() const {
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < size.size(); ++i)
    result.push_back((size[i] + 2 * padding[i] - kernel[i]) / stride[i] + 1);
  return result;
}

namespace {

// A stride that oneDNN's buffer of inputs for the processor's tiles is not made for.
bool has_far_stride(const ConvolutionGeometry& geometry) {
  const auto &kernel = geometry.kernel, &stride = geometry.stride;
  if (checked_product<std::int64_t>(kernel) == 1) return false;  // needs no such buffer
  for (std::size_t i = 0; i < kernel.size(); ++i)
    if (stride[i] > 2 || stride[i] > kernel[i]) return true;
  return false;
}

// oneDNN copies the inputs that such a kernel meets into memory of its own, through which it goes
// by whole vectors of channels: where they don't fill one, beyond its end.
bool has_strided_points(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t vector = 16;
  const bool fills_vectors = geometry.inputs % vector == 0 && geometry.outputs % vector == 0;
  return geometry.size.size() < 3 && checked_product<std::int64_t>(geometry.kernel) == 1 &&
         checked_product<std::int64_t>(geometry.stride) > 1 && !fills_vectors;
}

// oneDNN multiplies bfloat16 values in pairs of output channels; in the input gradients of such a
// kernel the pair that lacks its second one is read wrongly, at some numbers of positions (30, 59,
// 60, 89, ...).
bool has_odd_points(const ConvolutionGeometry& geometry) {
  return geometry.type == torch::kBFloat16 && geometry.outputs % 2 == 1 &&
         checked_product<std::int64_t>(geometry.kernel) == 1;
}

}  // namespace

bool is_wrong_in_onednn(const ConvolutionGeometry& geometry) {
  const auto &size = geometry.size, &stride = geometry.stride, &padding = geometry.padding;
  const bool is_3d = size.size() == 3;
  if (is_3d && stride[0] > 1 && padding[0] > stride[0]) return true;
  if (has_strided_points(geometry)) return true;
  if (geometry.type == torch::kFloat) return false;
  if (has_odd_points(geometry)) return true;
  if (size.back() < stride.back() || has_far_stride(geometry)) return true;
  const auto output = geometry.output_size();
  if (output.back() == 1 && stride.back() > 1) return true;
  for (std::size_t i = 0; i < size.size(); ++i) {
    const bool is_usual =
        size[i] >= geometry.kernel[i] && 2 * padding[i] <= geometry.kernel[i] && output[i] > 2;
    if (is_3d && padding[i] > 0 && !is_usual) return true;
  }
  return false;
}

namespace {

bool is_by_taps(const ConvolutionGeometry& geometry) {
  if (geometry.has_taps_first && geometry.size.size() == 3) {
    return has_few_voxels(checked_product<std::int64_t>(geometry.output_size()), geometry.inputs,
                          geometry.outputs);
  }
  return has_few_positions(geometry);
}

std::int64_t output_vectors(const ConvolutionGeometry& geometry) {
  return geometry.batch * checked_product<std::int64_t>(geometry.output_size());
}

// So that fewer products make up for the transforms of the weights, of which there are as many as
// weights: from measurements (docs/experiments.md).
bool has_many_tiles(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t least_of_images = 512, least_of_boxes = 1024;
  const auto least = geometry.size.size() == 3 ? least_of_boxes : least_of_images;
  return output_vectors(geometry) >= least;
}

bool multiplies(const ConvolutionGeometry& geometry) {
  return geometry.type == torch::kFloat ||
         (geometry.type == torch::kBFloat16 && multiplies_bfloat16());
}

ConvolutionGeometry in_float32(ConvolutionGeometry geometry) {
  geometry.type = torch::kFloat;
  return geometry;
}

// LibTorch's own is oneDNN's as well, so what that gets wrong is not left to it.
KernelKind usual_of_float32(const ConvolutionGeometry& geometry) {
  if (is_by_taps(geometry) || is_wrong_in_onednn(geometry)) return KernelKind::taps;
  if (has_few_inputs(geometry)) return KernelKind::columns;
  if (has_odd_channels(geometry)) return KernelKind::image_lanes;
  return has_many_tiles(geometry) ? KernelKind::winograd : KernelKind::direct;
}

// They compute in float32, and bfloat16 is no more than twice as fast: kernels of three taps save
// more than that, those of four don't. With the processor's own tiles of bfloat16 it is far faster:
// from measurements (docs/experiments.md).
bool suits_winograd_in_bfloat16(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t least_vectors = 2048, taps = 3;
  return !has_tiles_of_bfloat16() && geometry.kernel.front() == taps &&
         output_vectors(geometry) >= least_vectors;
}

// Products by tap fill the vectors that oneDNN's few positions leave empty, and take the weights
// where they lie.
bool suits_taps_in_bfloat16(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t most_of_boxes = 1024;
  if (!geometry.has_taps_first || has_tiles_of_bfloat16()) return false;
  if (geometry.size.size() == 3) return output_vectors(geometry) <= most_of_boxes;
  return checked_product<std::int64_t>(geometry.output_size()) <= most_tap_positions &&
         std::min(geometry.inputs, geometry.outputs) >= least_tap_channels;
}

// The processor's own tiles of bfloat16 pay, other than where there are hardly any positions.
bool is_left_to_tiles(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t most_positions = 4;
  return has_tiles_of_bfloat16() && geometry.size.size() < 3 &&
         checked_product<std::int64_t>(geometry.output_size()) > most_positions;
}

KernelKind usual_of_bfloat16(const ConvolutionGeometry& geometry) {
  if (is_by_taps(geometry) && !is_left_to_tiles(geometry)) return KernelKind::taps;
  if (has_few_inputs(geometry)) return KernelKind::columns;
  if (suits_taps_in_bfloat16(geometry)) return KernelKind::taps;
  return suits_winograd_in_bfloat16(geometry) ? KernelKind::winograd : KernelKind::direct;
}

KernelKind usual_kind(const ConvolutionGeometry& geometry) {
  if (!multiplies(geometry)) return KernelKind::rounded;
  return geometry.type == torch::kFloat ? usual_of_float32(geometry) : usual_of_bfloat16(geometry);
}

}  // namespace

std::unique_ptr<ConvolutionKernel> make_kernel(KernelKind kind,
                                               const ConvolutionGeometry& geometry) {
  const bool is_float32 = geometry.type == torch::kFloat;
  if (kind == KernelKind::rounded) {
    auto kernel = is_float32 ? nullptr : make_convolution_kernel(in_float32(geometry));
    return kernel ? make_rounding_convolution(std::move(kernel)) : nullptr;
  }
  if (!multiplies(geometry)) return nullptr;
  switch (kind) {
    case KernelKind::taps:
      return is_float32 ? make_tap_convolution(geometry) : make_bfloat16_tap_convolution(geometry);
    case KernelKind::columns:
      return make_column_convolution(geometry);
    case KernelKind::image_lanes:
      return is_float32 ? make_image_lane_convolution(geometry) : nullptr;
    case KernelKind::winograd:
      return make_winograd_convolution(geometry);
    default:
      return make_direct_convolution(geometry);
  }
}

std::unique_ptr<ConvolutionKernel> make_convolution_kernel(const ConvolutionGeometry& geometry) {
  auto kinds = std::vector{usual_kind(geometry), KernelKind::direct};
  // LibTorch's own would copy the weight in each pass.
  if (geometry.has_taps_first) kinds.push_back(KernelKind::taps);
  kinds.push_back(KernelKind::rounded);
  for (const auto kind : kinds)
    if (auto kernel = make_kernel(kind, geometry)) return kernel;
  return nullptr;
}

std::vector<KernelKind> kernels_to_try(const ConvolutionGeometry& geometry) {
  const auto usual = make_convolution_kernel(geometry);
  if (!usual || usual->order() != MemoryOrder::channels_last || !multiplies(geometry)) return {};
  auto kinds = std::vector{usual_kind(geometry)};
  const auto add = [&](KernelKind kind) {
    if (kind != kinds.front()) kinds.push_back(kind);
  };
  add(KernelKind::direct);
  add(KernelKind::winograd);
  if (geometry.type != torch::kFloat) add(KernelKind::rounded);
  // Beyond these they are hopeless, and take long to show it.
  constexpr std::int64_t most_columns = 32, most_positions = 4096;
  if (geometry.inputs <= most_columns) add(KernelKind::columns);
  if (checked_product<std::int64_t>(geometry.output_size()) <= most_positions)
    add(KernelKind::taps);
  return kinds;
}

std::string text_of(const ConvolutionGeometry& geometry) {
  const int threads = at::get_num_threads();
  return fmt::format("{} x {}x{} to {}, {}, stride {}, padding {}{}, {}, {} thread{}",
                     geometry.batch, geometry.inputs, fmt::join(geometry.size, "x"),
                     geometry.outputs, fmt::join(geometry.kernel, "x"),
                     fmt::join(geometry.stride, "x"), fmt::join(geometry.padding, "x"),
                     geometry.has_taps_first ? ", taps first" : "",
                     geometry.type == torch::kFloat      ? "float32"
                     : geometry.type == torch::kBFloat16 ? "bfloat16"
                                                         : "float16",
                     threads, threads == 1 ? "" : "s");
}

namespace {

// The one that was chosen; the usual one where none was, or its name says nothing here.
std::unique_ptr<ConvolutionKernel> make_chosen(const ConvolutionGeometry& geometry,
                                               const KernelChoices* choices) {
  if (choices != nullptr) {
    const auto choice = choices->find(text_of(geometry));
    const auto kind =
        choice == choices->end() ? std::nullopt : find_named<KernelKind>(choice->second.kernel);
    if (kind) {
      if (auto kernel = make_kernel(*kind, geometry)) return kernel;
    }
  }
  return make_convolution_kernel(geometry);
}

}  // namespace

std::shared_ptr<ConvolutionKernel> ConvolutionKernels::find(const ConvolutionGeometry& geometry) {
  WatchConvolutions::note(geometry);
  const int threads = at::get_num_threads();
  const auto& choices = UseKernels::current();
  const auto found = std::find_if(made_.begin(), made_.end(), [&](const Made& each) {
    return each.threads == threads && each.choices == choices && each.geometry == geometry;
  });
  if (found != made_.end()) return found->kernel;
  if (made_.size() == most) made_.pop_front();
  return made_.emplace_back(Made{geometry, threads, choices, make_chosen(geometry, choices.get())})
      .kernel;
}

}  // namespace kolo
