#pragma once

#include <cstddef>
#include <deque>
#include <memory>

#include "nn/kernels/convolution_kernel.h"

namespace kolo {

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

}  // namespace kolo
