#include <memory>

#include "kernels/convolution_kernel.h"

namespace kolo {

namespace {

// A convolution without dimensions, in float32: one product of matrices a pass. The weight lies as
// [inputs, outputs].
class LinearProducts final : public ConvolutionKernel {
 public:
  explicit LinearProducts(const ConvolutionGeometry& geometry) : geometry_(geometry) {}

  void forward(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias,
               const torch::Tensor& output) override {
    const auto [batch, inputs, outputs] = lengths();
    multiply(batch, outputs, inputs, {values_of(input), inputs}, {values_of(weight), outputs},
             values_of(output));
    if (bias.defined()) add_bias(output, outputs, bias.detach());
  }

  void backward_input(const torch::Tensor& output_gradient, const torch::Tensor& weight,
                      const torch::Tensor& input_gradient) override {
    const auto [batch, inputs, outputs] = lengths();
    multiply(batch, inputs, outputs, {values_of(output_gradient), outputs},
             {values_of(weight), outputs, true}, values_of(input_gradient));
  }

  void backward_weight(const torch::Tensor& input, const torch::Tensor& output_gradient,
                       const torch::Tensor& weight_gradient) override {
    const auto [batch, inputs, outputs] = lengths();
    multiply(inputs, outputs, batch, {values_of(input), inputs, true},
             {values_of(output_gradient), outputs}, values_of(weight_gradient));
  }

 private:
  struct Lengths {
    std::int64_t batch, inputs, outputs;
  };
  [[nodiscard]] Lengths lengths() const {
    return {geometry_.batch, geometry_.inputs, geometry_.outputs};
  }
  static float* values_of(const torch::Tensor& tensor) { return tensor.data_ptr<float>(); }

  ConvolutionGeometry geometry_;
};

}  // namespace

std::unique_ptr<ConvolutionKernel> make_linear_products(const ConvolutionGeometry& geometry) {
  return geometry.size.empty() && geometry.has_taps_first && geometry.type == torch::kFloat
             ? std::make_unique<LinearProducts>(geometry)
             : nullptr;
}

}  // namespace kolo
