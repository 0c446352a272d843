// For processors without tiles.
#include "kernels/convolution_kernel.h"

namespace kolo {

std::unique_ptr<ConvolutionKernel> make_tile_convolution(const ConvolutionGeometry& /*geometry*/) {
  return nullptr;
}

}  // namespace kolo
