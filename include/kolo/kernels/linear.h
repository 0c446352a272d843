#pragma once

#include <cstdint>
#include <memory>

#include <torch/nn/modules/linear.h>

// Linear layer with torch::nn's options, parameters, names and start, computed by kolo's products
// on CPUs where these are faster: in float32 from 2^18 weights on, whose gradients are made where
// they are averaged, and in 16-bit types under autocast. LibTorch 1.13 multiplies bfloat16 tens of
// times as slowly as float32 where the processor has no instructions for it.
//
// Under autocast the input is rounded to its type, and so is the output; the products are made by
// AMX's tiles, or by LibTorch where oneDNN multiplies bfloat16, or in float32. Sums are float32,
// and so are weights and their gradients. Other dtypes and devices are torch::nn's.
//
// Threads: like any module, one forward at a time. Cost: one product of matrices forward, two
// backward; keeps its input, in autocast's type.
namespace kolo {

class ConvolutionKernels;

class LinearImpl : public torch::nn::LinearImpl {
 public:
  explicit LinearImpl(const torch::nn::LinearOptions& options_);
  LinearImpl(std::int64_t inputs, std::int64_t outputs)
      : LinearImpl(torch::nn::LinearOptions(inputs, outputs)) {}

  // [..., inputs] to [..., outputs].
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input);

 private:
  std::shared_ptr<ConvolutionKernels> kernels_;
};
TORCH_MODULE(Linear);

}  // namespace kolo
