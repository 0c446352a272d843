// Rules by which a convolution gets its kernel, all from measurements (docs/inside/experiments.md):
// a function of the geometry and the processor alone, so that a network computes the same bits on
// any day.
#include <algorithm>

#include <ATen/Parallel.h>

#include "kernels/convolution_kernel.h"
#include "kolo/base/checked.h"
#include "kolo/kernels/convolution.h"

namespace kolo {

namespace {

// A stride that oneDNN's buffer of inputs for the processor's tiles (AMX) is not made for: 2.6
// above 2; longer than the kernel until its pull request 5494 of July 2026.
bool has_far_stride(const ConvolutionGeometry& geometry) {
  const auto &kernel = geometry.kernel, &stride = geometry.stride;
  if (geometry.taps() == 1) return false;  // needs no such buffer
  for (std::size_t i = 0; i < kernel.size(); ++i)
    if (stride[i] > 2 || stride[i] > kernel[i]) return true;
  return false;
}

// oneDNN copies the inputs that such a kernel meets into memory of its own, through which it goes
// by whole vectors of channels: where they don't fill one, beyond its end.
bool has_strided_points(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t vector = 16;
  const bool fills_vectors = geometry.inputs % vector == 0 && geometry.outputs % vector == 0;
  return geometry.size.size() < 3 && geometry.taps() == 1 &&
         checked_product<std::int64_t>(geometry.stride) > 1 && !fills_vectors;
}

// oneDNN multiplies bfloat16 values in pairs of output channels; in the input gradients of such a
// kernel the pair that lacks its second one is read wrongly, at some numbers of positions (30, 59,
// 60, 89, ...).
bool has_odd_points(const ConvolutionGeometry& geometry) {
  return geometry.type == torch::kBFloat16 && geometry.outputs % 2 == 1 && geometry.taps() == 1;
}

}  // namespace

bool is_wrong_in_onednn(const ConvolutionGeometry& geometry) {
  const auto &size = geometry.size, &stride = geometry.stride, &padding = geometry.padding;
  const bool is_3d = size.size() == 3;
  // The weight's gradient (2.6, over all kernels up to 7, strides up to 4 and lengths up to 9).
  if (is_3d && stride[0] > 1 && padding[0] > stride[0]) return true;
  if (has_strided_points(geometry)) return true;
  if (geometry.type == torch::kFloat) return false;
  if (has_odd_points(geometry)) return true;
  if (size.back() < stride.back() || has_far_stride(geometry)) return true;  // 2.6
  const auto output = geometry.output_size();
  if (output.back() == 1 && stride.back() > 1) return true;  // 3.7, forward, of one channel
  for (std::size_t i = 0; i < size.size(); ++i) {
    const bool is_usual =
        size[i] >= geometry.kernel[i] && 2 * padding[i] <= geometry.kernel[i] && output[i] > 2;
    if (is_3d && padding[i] > 0 && !is_usual) return true;  // 2.6 and 3.7, some of these
  }
  return false;
}

namespace {

bool has_few_positions(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t least_batch = 8;
  return geometry.positions() <= most_tap_positions && geometry.taps() > 1 &&
         std::min(geometry.inputs, geometry.outputs) >= least_tap_channels &&
         (geometry.has_taps_first || geometry.batch >= least_batch);
}

bool is_by_taps(const ConvolutionGeometry& geometry) {
  if (geometry.has_taps_first && geometry.size.size() == 3) {
    return has_few_voxels(geometry.output_positions(), geometry.inputs, geometry.outputs);
  }
  return has_few_positions(geometry);
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

std::int64_t output_vectors(const ConvolutionGeometry& geometry) {
  return geometry.batch * geometry.output_positions();
}

// Fewer products make up for transforming all weights where there are as many tiles.
bool has_many_tiles(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t least_of_images = 512, least_of_boxes = 1024;
  const auto least = geometry.size.size() == 3 ? least_of_boxes : least_of_images;
  return output_vectors(geometry) >= least;
}

// Images of a whole tile and more (4 x 4), so many that minimal algorithms save more than products
// by tap do. (On two threads and more, as much.)
bool has_many_small_images(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t tile = 16, taps = 3;
  return geometry.size.size() == 2 && are_all(geometry.kernel, taps) &&
         are_all(geometry.stride, 1) && geometry.output_positions() >= tile &&
         has_many_tiles(geometry);
}

std::unique_ptr<ConvolutionKernel> make_by_taps(const ConvolutionGeometry& geometry) {
  return geometry.type == torch::kFloat ? make_tap_convolution(geometry)
                                        : make_bfloat16_tap_convolution(geometry);
}

// The fastest kernel; null where it doesn't know such a geometry, or this processor can't compute
// it. LibTorch's own uses oneDNN as well, so a geometry that this gets wrong is not left to it.
std::unique_ptr<ConvolutionKernel> fastest_in_float32(const ConvolutionGeometry& geometry) {
  if (has_many_small_images(geometry) && !has_odd_channels(geometry))
    return make_winograd_convolution(geometry);
  if (is_by_taps(geometry) || is_wrong_in_onednn(geometry)) return make_by_taps(geometry);
  if (has_few_inputs(geometry)) return make_column_convolution(geometry);
  if (has_odd_channels(geometry)) return make_image_lane_convolution(geometry);
  return has_many_tiles(geometry) ? make_winograd_convolution(geometry)
                                  : make_direct_convolution(geometry);
}

// Minimal algorithms compute in float32, while bfloat16 is at most twice as fast: kernels of three
// taps save more than that, kernels of four don't, and few channels don't pay for the transforms.
// The processor's own tiles of bfloat16 are far faster.
bool suits_winograd_in_bfloat16(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t least_vectors = 2048, taps = 3, least_channels = 64;
  return !has_tiles_of_bfloat16() && geometry.kernel.front() == taps &&
         std::min(geometry.inputs, geometry.outputs) >= least_channels &&
         output_vectors(geometry) >= least_vectors;
}

// Products by tap fill the vectors that oneDNN's few positions leave empty, and take the weights
// where they lie.
bool suits_taps_in_bfloat16(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t most_of_boxes = 1024;
  if (!geometry.has_taps_first || has_tiles_of_bfloat16()) return false;
  if (geometry.size.size() == 3) return output_vectors(geometry) <= most_of_boxes;
  return geometry.output_positions() <= most_tap_positions &&
         std::min(geometry.inputs, geometry.outputs) >= least_tap_channels;
}

// Few channels leave most of a tile empty, other than those of whole lines, a vector of which has
// all of a kernel's taps.
bool suits_tiles(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t least_channels = 32, values_of_line = 32;
  const bool fits_lines = !geometry.size.empty() && geometry.stride.back() > 1 &&
                          geometry.kernel.back() * geometry.inputs <= values_of_line;
  return has_tiles_of_bfloat16() && geometry.outputs >= least_channels &&
         (geometry.inputs >= least_channels || fits_lines);
}

std::unique_ptr<ConvolutionKernel> fastest_in_bfloat16(const ConvolutionGeometry& geometry) {
  if (suits_tiles(geometry))
    if (auto kernel = make_tile_convolution(geometry)) return kernel;
  if (is_by_taps(geometry)) return make_by_taps(geometry);
  if (has_few_inputs(geometry)) return make_column_convolution(geometry);
  if (suits_taps_in_bfloat16(geometry)) return make_by_taps(geometry);
  return suits_winograd_in_bfloat16(geometry) ? make_winograd_convolution(geometry)
                                              : make_direct_convolution(geometry);
}

torch::Tensor in_float32(const torch::Tensor& tensor) {
  return tensor.to(torch::kFloat);
}

torch::Tensor room_in_float32(const torch::Tensor& like) {
  return torch::empty_like(like, like.options().dtype(torch::kFloat));
}

// For types that nothing multiplies fast here. The weights stay as they are.
class RoundingConvolution final : public ConvolutionKernel {
 public:
  explicit RoundingConvolution(std::unique_ptr<ConvolutionKernel> kernel)
      : kernel_(std::move(kernel)) {}

  [[nodiscard]] MemoryOrder order() const override { return kernel_->order(); }

  void forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
               const torch::Tensor& output) override {
    const auto made = room_in_float32(output);
    kernel_->forward(in_float32(input), weight, bias, made);
    output.copy_(made);
  }

  void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                      const torch::Tensor& input_gradient) override {
    const auto made = room_in_float32(input_gradient);
    kernel_->backward_input(in_float32(output_gradient), weight, made);
    input_gradient.copy_(made);
  }

  void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                       const torch::Tensor& weight_gradient) override {
    kernel_->backward_weight(in_float32(input), in_float32(output_gradient), weight_gradient);
  }

 private:
  std::unique_ptr<ConvolutionKernel> kernel_;
};

std::unique_ptr<ConvolutionKernel> make_unrounded(const ConvolutionGeometry& geometry) {
  const bool is_float32 = geometry.type == torch::kFloat;
  if (!is_float32 && !(geometry.type == torch::kBFloat16 && multiplies_bfloat16())) return nullptr;
  auto kernel = is_float32 ? fastest_in_float32(geometry) : fastest_in_bfloat16(geometry);
  if (!kernel) kernel = make_direct_convolution(geometry);
  // LibTorch's own would copy the weight in each pass.
  if (!kernel && geometry.has_taps_first) kernel = make_by_taps(geometry);
  return kernel;
}

// Gradients of so many weights pay for autograd's way to kolo's products: these make them in the
// memory where they are averaged, LibTorch's are copied there.
bool has_many_weights(const ConvolutionGeometry& geometry) {
  constexpr std::int64_t least = 1 << 18;
  return checked_multiply(geometry.inputs, geometry.outputs) >= least;
}

ConvolutionGeometry of_float32(ConvolutionGeometry geometry) {
  geometry.type = torch::kFloat;
  return geometry;
}

// A linear layer's, without tiles LibTorch's own where oneDNN multiplies bfloat16.
std::unique_ptr<ConvolutionKernel> make_linear_kernel(const ConvolutionGeometry& geometry) {
  if (geometry.type == torch::kFloat)
    return has_many_weights(geometry) ? make_tap_convolution(geometry) : nullptr;
  if (geometry.type == torch::kBFloat16 && multiplies_bfloat16())
    return suits_tiles(geometry) ? make_tile_convolution(geometry) : nullptr;
  return std::make_unique<RoundingConvolution>(make_tap_convolution(of_float32(geometry)));
}

}  // namespace

std::unique_ptr<ConvolutionKernel> make_convolution_kernel(const ConvolutionGeometry& geometry) {
  if (geometry.size.empty()) return make_linear_kernel(geometry);
  auto kernel = make_unrounded(geometry);
  if (kernel || geometry.type == torch::kFloat) return kernel;
  kernel = make_unrounded(of_float32(geometry));
  return kernel ? std::make_unique<RoundingConvolution>(std::move(kernel)) : nullptr;
}

std::shared_ptr<ConvolutionKernel> ConvolutionKernels::find(const ConvolutionGeometry& geometry) {
  const int threads = at::get_num_threads();
  const auto found = std::find_if(made_.begin(), made_.end(), [&](const Made& each) {
    return each.threads == threads && each.geometry == geometry;
  });
  if (found != made_.end()) return found->kernel;
  if (made_.size() == most) made_.pop_front();
  return made_.emplace_back(Made{geometry, threads, make_convolution_kernel(geometry)}).kernel;
}

}  // namespace kolo
