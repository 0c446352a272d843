#include <gtest/gtest.h>

#include "kernels/convolution_kernel.h"

namespace kolo {
namespace {

// The tests of kernels pass where there is none: here, there must be one.
TEST(PlayedTiles, GiveAnyProcessorTheKernel) {
  const ConvolutionGeometry geometry{.batch = 2,
                                     .inputs = 3,
                                     .outputs = 5,
                                     .size = {4},
                                     .kernel = {3},
                                     .stride = {1},
                                     .padding = {1},
                                     .type = torch::kBFloat16};
  EXPECT_NE(make_tile_convolution(geometry), nullptr);
}

}  // namespace
}  // namespace kolo
