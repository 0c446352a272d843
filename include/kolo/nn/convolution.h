#pragma once

#include <memory>

#include <torch/torch.h>

namespace kolo {

class ConvolutionKernels;

// A torch::nn::Conv2d, with the same options, parameters and results (to rounding), that computes
// by oneDNN's primitives in channels-last layout, on memory of LibTorch's, with the primitives kept
// from step to step. Its output is in channels-last layout; shapes stay [N, C, H, W].
//
// It leaves to torch::nn::Conv2d what the kernels don't know: dtypes other than float32, other
// devices than CPUs, autocast, groups, dilation, padding other than with zeros, empty batches,
// processors for which oneDNN has nothing vectorised. There are no second derivatives otherwise.
//
// Threads: like any module, one forward at a time. Cost: besides what torch::nn::Conv2d needs, a
// copy of the weight in another layout during a pass.
class Convolution2dImpl : public torch::nn::Conv2dImpl {
 public:
  explicit Convolution2dImpl(const torch::nn::Conv2dOptions& options_);
  Convolution2dImpl(std::int64_t inputs, std::int64_t outputs, torch::ExpandingArray<2> kernel)
      : Convolution2dImpl(torch::nn::Conv2dOptions(inputs, outputs, kernel)) {}

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input);

 private:
  std::shared_ptr<ConvolutionKernels> kernels_;
};
TORCH_MODULE(Convolution2d);

}  // namespace kolo
