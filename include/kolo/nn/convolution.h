#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

// Convolutions with the options, parameters and results (to rounding) of torch::nn's, that compute
// by oneDNN's primitives in channels-last layout or by products of matrices, on memory of
// LibTorch's, with the primitives kept from step to step. Outputs are in channels-last layout;
// shapes stay [N, C, ...].
//
// They leave to torch::nn what the kernels don't know: dtypes other than float32, other devices
// than CPUs, groups, dilation, padding other than with zeros, output padding, empty batches, inputs
// without a batch, processors for which oneDNN has nothing vectorized, and, where kolo is built
// without a oneDNN of its own, what is not computed by products of matrices. There are no second
// derivatives otherwise.
//
// Under autocast Convolution2d is LibTorch's. The 3-D layers round their operands and their result
// to autocast's type and compute in float32 between, which is no faster than without: LibTorch 1.13
// has no transposed convolution in bfloat16, and the weight gradients that oneDNN 2.6 makes in it
// are wrong for some shapes (64 channels of 4x4x4 to 128, kernel 4, stride 2).
//
// Threads: like any module, one forward at a time. Cost: besides what torch::nn's layers need, a
// copy of the weight in another layout during a pass, unless keep_taps_first() was called.
namespace kolo {

class ConvolutionKernels;

// The oneDNN that kolo computes by, "2.6.0, instruction set AVX2"; empty where it was built
// without, because LibTorch has one of its own inside: then LibTorch's convolutions serve.
[[nodiscard]] std::string onednn_description();

// oneDNN's name of the implementation that computes a usual convolution of 2 or 3 dimensions on
// this processor, for example "brgconv:avx512_core"; empty where it has nothing vectorized, and
// LibTorch's own operators compute.
[[nodiscard]] std::string convolution_implementation(std::int64_t dimensions);

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

class Convolution3dImpl : public torch::nn::Conv3dImpl {
 public:
  explicit Convolution3dImpl(const torch::nn::Conv3dOptions& options_);

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input);

 private:
  std::shared_ptr<ConvolutionKernels> kernels_;
};
TORCH_MODULE(Convolution3d);

// The data gradient of a convolution, and computed as such: LibTorch's own is slow on CPUs.
class ConvolutionTranspose3dImpl : public torch::nn::ConvTranspose3dImpl {
 public:
  explicit ConvolutionTranspose3dImpl(const torch::nn::ConvTranspose3dOptions& options_);

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input);

 private:
  std::shared_ptr<ConvolutionKernels> kernels_;
};
TORCH_MODULE(ConvolutionTranspose3d);

// Puts a layer's weight into memory by taps of the kernel, for inputs of few voxels and many
// channels: products of matrices then take it where it lies. The weight's shape and values, and
// all that is computed, stay the same.
void keep_taps_first(torch::Tensor& weight);

}  // namespace kolo
