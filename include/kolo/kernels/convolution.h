#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include "kolo/kernels/onednn.h"
#include "kolo/kernels/partition.h"

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
// Under autocast they compute in its type: what comes in, goes out and is kept for backward is as
// long as that, sums are float32, and so are weights and their gradients. In bfloat16 on processors
// with AVX512-BF16 or AMX (multiplies_bfloat16()) by products of it; on others, and in float16,
// values are rounded to the type and the products made in float32, which is no faster. Some shapes,
// of whose weights oneDNN 2.6 makes wrong gradients in bfloat16, are rounded likewise.
//
// Threads: like any module, one forward at a time. Cost: besides what torch::nn's layers need, a
// copy of the weight in another layout during a pass, unless keep_taps_first() was called.
namespace kolo {

class ConvolutionKernels;

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

  // From now on computes this rank's rows of samples that several ranks share; null: whole samples.
  void share_samples(std::shared_ptr<const LayerPart> part) { part_ = std::move(part); }

 private:
  std::shared_ptr<ConvolutionKernels> kernels_;
  std::shared_ptr<const LayerPart> part_;
};
TORCH_MODULE(Convolution3d);

// The data gradient of a convolution, and computed as such: LibTorch's own is slow on CPUs.
class ConvolutionTranspose3dImpl : public torch::nn::ConvTranspose3dImpl {
 public:
  explicit ConvolutionTranspose3dImpl(const torch::nn::ConvTranspose3dOptions& options_);

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input);

  // Computes this rank's rows from now on, as Convolution3d::share_samples().
  void share_samples(std::shared_ptr<const LayerPart> part) { part_ = std::move(part); }

 private:
  std::shared_ptr<ConvolutionKernels> kernels_;
  std::shared_ptr<const LayerPart> part_;
};
TORCH_MODULE(ConvolutionTranspose3d);

// Puts a layer's weight into memory by taps of the kernel: kernels then use it in place, or copy it
// faster than from LibTorch's order. Its shape and values, and all results, stay the same.
void keep_taps_first(torch::Tensor& weight);

// Does so for all layers above in a network for CPUs that have 16 channels or more on both sides.
// Call it before an optimizer sees the weights. Does nothing where kolo is built without a oneDNN
// of its own: LibTorch's operators would copy the weights in every pass.
void keep_taps_first(torch::nn::Module& network);

}  // namespace kolo
