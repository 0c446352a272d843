#include <memory>

#include <ATen/Parallel.h>

#include "kernels/convolution_kernel.h"
#include "kernels/image_lanes.h"
#include "kernels/vector_loops.h"

namespace kolo {

namespace {

using image_lanes::Correlation;

// For images of few channels, which leave vectors of channels half empty: a vector holds the same
// value of several images instead. Stride 1, without padding.
class ImageLaneConvolution final : public ConvolutionKernel {
 public:
  explicit ImageLaneConvolution(const ConvolutionGeometry& geometry)
      : forward_{.images = geometry.batch,
                 .inputs = geometry.inputs,
                 .outputs = geometry.outputs,
                 .height = geometry.size[0],
                 .width = geometry.size[1],
                 .kernel_height = geometry.kernel[0],
                 .kernel_width = geometry.kernel[1]},
        backward_(forward_) {
    backward_.inputs = forward_.outputs;
    backward_.outputs = forward_.inputs;
    backward_.height = forward_.output_height();
    backward_.width = forward_.output_width();
    backward_.padding_height = forward_.kernel_height - 1;
    backward_.padding_width = forward_.kernel_width - 1;
  }

  [[nodiscard]] MemoryOrder order() const override { return MemoryOrder::batch_last; }

  void forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
               const torch::Tensor& output) override {
    const auto taps = forward_.taps();
    const auto packed = torch::empty_like(weight);
    image_lanes::pack(forward_, weight.data_ptr<float>(), {forward_.inputs * taps, taps, 1},
                      packed.data_ptr<float>());
    correlate(forward_, input, packed, bias.defined() ? bias.data_ptr<float>() : nullptr, output);
  }

  // The correlation with the weight turned round, inputs and outputs exchanged.
  void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                      const torch::Tensor& input_gradient) override {
    const auto taps = backward_.taps();
    const auto packed = torch::empty_like(weight);
    image_lanes::pack(backward_, weight.data_ptr<float>() + taps - 1,
                      {taps, backward_.outputs * taps, -1}, packed.data_ptr<float>());
    correlate(backward_, output_gradient, packed, nullptr, input_gradient);
  }

  void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                       const torch::Tensor& weight_gradient) override {
    const float* const gradient = output_gradient.data_ptr<float>();
    at::parallel_for(0, forward_.inputs, 1, [&](std::int64_t begin, std::int64_t end) {
      vector_loops().correlate_gradients(forward_, input.data_ptr<float>(), gradient,
                                         weight_gradient.data_ptr<float>(), begin, end);
    });
  }

 private:
  static void correlate(const Correlation& shape, const torch::Tensor& input,
                        const torch::Tensor& packed, const float* bias,
                        const torch::Tensor& output) {
    at::parallel_for(0, shape.output_height(), 1, [&](std::int64_t begin, std::int64_t end) {
      vector_loops().correlate(shape, input.data_ptr<float>(), packed.data_ptr<float>(), bias,
                               output.data_ptr<float>(), begin, end);
    });
  }

  Correlation forward_, backward_;
};

bool is_known(const ConvolutionGeometry& geometry) {
  return geometry.size.size() == 2 && are_all(geometry.stride, 1) && are_all(geometry.padding, 0) &&
         geometry.batch % image_lanes::lanes == 0 && !geometry.has_taps_first &&
         std::max(geometry.kernel[0], geometry.kernel[1]) <= image_lanes::longest_kernel;
}

}  // namespace

std::unique_ptr<ConvolutionKernel> make_image_lane_convolution(
    const ConvolutionGeometry& geometry) {
  if (!is_known(geometry) || !has_vector_loops()) return nullptr;
  return std::make_unique<ImageLaneConvolution>(geometry);
}

}  // namespace kolo
