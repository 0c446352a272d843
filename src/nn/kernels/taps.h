#pragma once

#include <cstdint>
#include <vector>

#include "nn/kernels/convolution_kernel.h"

namespace kolo {

// Positions of the input and the output that a tap of the kernel connects, from 0.
struct Connection {
  std::int64_t input = 0;
  std::int64_t output = 0;
};

// A tap's connections that don't fall on padding.
using Tap = std::vector<Connection>;

// Of a kernel's taps, the last dimension running fastest.
[[nodiscard]] std::vector<Tap> taps_of(const ConvolutionGeometry& geometry);

}  // namespace kolo
