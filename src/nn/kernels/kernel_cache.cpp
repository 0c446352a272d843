#include "nn/kernels/kernel_cache.h"

#include <algorithm>

namespace kolo {

std::shared_ptr<ConvolutionKernel> ConvolutionKernels::find(const ConvolutionGeometry& geometry) {
  const int threads = at::get_num_threads();
  const auto found = std::find_if(made_.begin(), made_.end(), [&](const Made& each) {
    return each.threads == threads && each.geometry == geometry;
  });
  if (found != made_.end()) return found->kernel;
  if (made_.size() == most) made_.pop_front();
  return made_.emplace_back(Made{geometry, threads, make_convolution_kernel(geometry)}).kernel;
}

}  // namespace kolo
