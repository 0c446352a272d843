#pragma once

#include <memory>

#include <torch/types.h>

#include "nn/kernels/convolution_kernel.h"

// Convolutions by a kernel, with their gradients. Tensors are [N, C, ...] of any strides; what
// comes out is in channels-last memory. No second derivatives.
namespace kolo {

// `bias` is none or [outputs].
[[nodiscard]] torch::Tensor convolve(const torch::Tensor& input, const torch::Tensor& weight,
                                     const c10::optional<torch::Tensor>& bias,
                                     const ConvolutionGeometry& geometry,
                                     const std::shared_ptr<ConvolutionKernel>& kernel);

// The transposed convolution, which is the data gradient of the one that the geometry (without a
// bias) describes: from `outputs` channels to `inputs`, from the small size to the large one. Its
// gradients are that one's forward and weight gradient. `bias` is none or [inputs].
[[nodiscard]] torch::Tensor convolve_transposed(const torch::Tensor& input,
                                                const torch::Tensor& weight,
                                                const c10::optional<torch::Tensor>& bias,
                                                const ConvolutionGeometry& geometry,
                                                const std::shared_ptr<ConvolutionKernel>& kernel);

}  // namespace kolo
