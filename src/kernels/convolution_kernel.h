#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <torch/types.h>

#include "kolo/base/checked.h"

// Interface and helpers that all ways to compute a convolution share.
namespace kolo {

// Tensors of images, [N, C, H, W] by shape, that lie as [C, H, W, N] in memory.
[[nodiscard]] bool has_batch_last(const torch::Tensor& images);
// Returns the tensor itself if it lies so.
[[nodiscard]] torch::Tensor with_batch_last(const torch::Tensor& images);
[[nodiscard]] torch::Tensor empty_with_batch_last(at::IntArrayRef shape,
                                                  const torch::TensorOptions& options);

// A convolution's weight, [outputs, inputs, kernel ...] (transposed: [inputs, outputs, kernel ...]
// of the layer), in memory in the order [kernel ..., second, first]: each tap's matrix is whole.
// Shape and values stay.
[[nodiscard]] torch::Tensor taps_first(const torch::Tensor& weight);

[[nodiscard]] bool is_taps_first(const torch::Tensor& weight);

// A weight as [taps, inputs, outputs], without gaps: in its own memory where the taps lie first, or
// copied.
[[nodiscard]] torch::Tensor by_taps(const torch::Tensor& weight);
// Memory for a weight's gradient in that order, its own where it can be. copy_from_taps() copies
// from there into the gradient, if they are apart.
[[nodiscard]] torch::Tensor room_by_taps(const torch::Tensor& weight_gradient);
void copy_from_taps(const torch::Tensor& room, const torch::Tensor& weight_gradient);

// Memory for the gradient of a parameter, of its sizes and strides: where the gradient is wanted in
// the end, if somebody offers that (kolo/base/gradient_destination.h), or new. In backward, once
// for each gradient.
[[nodiscard]] torch::Tensor destination_of_gradient(const torch::Tensor& parameter);

// In memory: [batch, spatial ..., channels], or [channels, spatial ..., batch].
enum class MemoryOrder { channels_last, batch_last };

// The sums of [N, C, ...] over all but the channels, in float32, whose long sums lose no more
// digits than short ones: the gradient of a bias. `tensor` is dense in that order.
[[nodiscard]] torch::Tensor sum_by_channel(const torch::Tensor& tensor, MemoryOrder order);

// Adds a value per channel to [N, C, ...] in channels-last memory. Few channels are taken several
// positions at a time, to fill vectors.
void add_bias(const torch::Tensor& output, std::int64_t channels, const torch::Tensor& bias);

// The lengths that a convolution works on; one entry a spatial dimension: 1 to 3, or none for a
// linear layer, which has one position and one tap.
struct ConvolutionGeometry {
  std::int64_t batch = 0;
  std::int64_t inputs = 0;  // channels
  std::int64_t outputs = 0;
  std::vector<std::int64_t> size;  // of the input
  std::vector<std::int64_t> kernel, stride, padding;
  bool bias = true;
  bool has_taps_first = false;             // the weight's memory (taps_first)
  torch::ScalarType type = torch::kFloat;  // of inputs, outputs and their gradients

  [[nodiscard]] std::vector<std::int64_t> output_size() const;
  // Counts for one sample, and of the kernel's taps.
  [[nodiscard]] std::int64_t positions() const { return checked_product<std::int64_t>(size); }
  [[nodiscard]] std::int64_t output_positions() const {
    return checked_product<std::int64_t>(output_size());
  }
  [[nodiscard]] std::int64_t taps() const { return checked_product<std::int64_t>(kernel); }

  bool operator==(const ConvolutionGeometry&) const = default;
};

// One convolution on CPUs, for one geometry and number of threads. Inputs and outputs, of the
// geometry's type (float32, bfloat16 or float16), are dense in order(); weights and their gradients
// are float32 of [outputs, inputs, kernel ...], contiguous or with the taps first in memory.
// Outputs are overwritten. One call at a time.
class ConvolutionKernel {
 public:
  ConvolutionKernel() = default;
  ConvolutionKernel(const ConvolutionKernel&) = delete;
  ConvolutionKernel& operator=(const ConvolutionKernel&) = delete;
  virtual ~ConvolutionKernel() = default;

  [[nodiscard]] virtual MemoryOrder order() const { return MemoryOrder::channels_last; }

  // The bias may be undefined, if the geometry has none.
  virtual void forward(const torch::Tensor& input, const torch::Tensor& weight,
                       const torch::Tensor& bias, const torch::Tensor& output) = 0;
  virtual void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                              const torch::Tensor& input_gradient) = 0;
  virtual void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                               const torch::Tensor& weight_gradient) = 0;
};

// From measurements with 3x3 kernels (docs/inside/experiments.md): where an image has at most so
// many positions, and inputs and outputs at least so many channels, products by tap are the
// fastest.
inline constexpr std::int64_t most_tap_positions = 16, least_tap_channels = 128;

// The same in 3-D, for the positions of the smaller side: weights are most of what such a layer
// moves.
[[nodiscard]] constexpr bool has_few_voxels(std::int64_t voxels, std::int64_t inputs,
                                            std::int64_t outputs) {
  constexpr std::int64_t most_voxels = 64, least_channels = 32;
  return voxels <= most_voxels && std::min(inputs, outputs) >= least_channels;
}

// Whether a kernel, strides or the like have this length in all dimensions.
[[nodiscard]] inline bool are_all(const std::vector<std::int64_t>& lengths, std::int64_t length) {
  return std::ranges::count(lengths, length) == std::ssize(lengths);
}

// The kernel that was the fastest for such a geometry on the machines that kolo was written on,
// or null where that is LibTorch's own (choose_kernel.cpp).
[[nodiscard]] std::unique_ptr<ConvolutionKernel> make_convolution_kernel(
    const ConvolutionGeometry& geometry);

// Whether oneDNN gets such a convolution wrong, perhaps writing outside its memory at that.
[[nodiscard]] bool is_wrong_in_onednn(const ConvolutionGeometry& geometry);

// The kernels, one by one, for make_convolution_kernel and for tests.
[[nodiscard]] std::unique_ptr<ConvolutionKernel> make_direct_convolution(
    const ConvolutionGeometry& geometry);  // null where oneDNN has nothing vectorized or right
[[nodiscard]] std::unique_ptr<ConvolutionKernel> make_tap_convolution(
    const ConvolutionGeometry& geometry);
// Null for channels that are no multiples of 32, and processors without products of bfloat16.
[[nodiscard]] std::unique_ptr<ConvolutionKernel> make_bfloat16_tap_convolution(
    const ConvolutionGeometry& geometry);
[[nodiscard]] std::unique_ptr<ConvolutionKernel> make_column_convolution(
    const ConvolutionGeometry& geometry);  // null where there is no direct one,
                                           // and of bfloat16 where there are no products of it

// By the processor's tiles of bfloat16; null for other types, processors without them, padding that
// kernels don't reach over, and 2^31 positions and more.
[[nodiscard]] std::unique_ptr<ConvolutionKernel> make_tile_convolution(
    const ConvolutionGeometry& geometry);

// By minimal algorithms, which take fewer products (3x3 and 3x3x3 kernels of stride 1, 4x4 and
// 4x4x4 ones of stride 2), made in float32 of values of either type; null for others, float16,
// channels that are no multiples of 16, and processors without vectors of 8 floats.
[[nodiscard]] std::unique_ptr<ConvolutionKernel> make_winograd_convolution(
    const ConvolutionGeometry& geometry);

// Null unless it is of images, stride 1, without padding, a multiple of 16 of them, on a processor
// with vectors of 8 floats or more.
[[nodiscard]] std::unique_ptr<ConvolutionKernel> make_image_lane_convolution(
    const ConvolutionGeometry& geometry);

// The kernels of a layer for the last few geometries: whole and last batches, in training and
// validation.
class ConvolutionKernels {
 public:
  // Null where LibTorch's own convolution is the one to take.
  [[nodiscard]] std::shared_ptr<ConvolutionKernel> find(const ConvolutionGeometry& geometry);

 private:
  static constexpr std::size_t most = 4;

  struct Made {
    ConvolutionGeometry geometry;
    int threads = 0;
    std::shared_ptr<ConvolutionKernel> kernel;
  };
  std::deque<Made> made_;
};

// Products and copies of float32 matrices, by oneDNN (onednn.cpp) or, where kolo is built without
// it, by LibTorch (onednn_left_out.cpp).

// A row-major matrix whose rows are `stride` values apart; `transpose` when its transpose is
// stored.
struct Matrix {
  const float* data = nullptr;
  std::int64_t stride = 0;
  bool transpose = false;
};

// C = A B; A is rows x inner, B inner x columns, C dense. From any thread; inside of a parallel
// region it stays on its own.
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Matrix& a,
              const Matrix& b, float* c);

// Whether this processor multiplies whole tiles of bfloat16 at once (AMX), many times as fast as
// float32.
[[nodiscard]] bool has_tiles_of_bfloat16();

// Copies values between tensors of one shape, dense in memory but in different orders.
void reorder(const torch::Tensor& from, const torch::Tensor& to);

}  // namespace kolo
