#include <utility>

#include "kernels/convolution_kernel.h"

namespace kolo {

namespace {

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
                       const torch::Tensor& weight_gradient,
                       const torch::Tensor& bias_gradient) override {
    kernel_->backward_weight(in_float32(input), in_float32(output_gradient), weight_gradient,
                             bias_gradient);
  }

 private:
  std::unique_ptr<ConvolutionKernel> kernel_;
};

}  // namespace

std::unique_ptr<ConvolutionKernel> make_rounding_convolution(
    std::unique_ptr<ConvolutionKernel> kernel) {
  return std::make_unique<RoundingConvolution>(std::move(kernel));
}

}  // namespace kolo
