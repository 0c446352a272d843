#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/convolution_kernel.h"

namespace kolo {

// Positions of the input and the output that a tap of the kernel connects, from 0.
struct Connection {
  std::int64_t input = 0;
  std::int64_t output = 0;
};

// The positions of a sample that a tap connects, without padding. Taps are numbered with the last
// dimension running fastest.
class TapPositions {
 public:
  TapPositions(const ConvolutionGeometry& geometry, std::int64_t tap);

  // Calls work(connection) in the order of outputs, until it returns false.
  template <typename Work>
  void while_wanted(const Work& work) const {
    const auto& [slowest, middle, fastest] = along_;
    for (auto z = slowest.first; z < slowest.end; ++z) {
      for (auto y = middle.first; y < middle.end; ++y) {
        const auto line_in = slowest.input_of(z) * middle.inputs + middle.input_of(y);
        const auto line_out = z * middle.outputs + y;
        for (auto x = fastest.first; x < fastest.end; ++x) {
          if (!work(Connection{line_in * fastest.inputs + fastest.input_of(x),
                               line_out * fastest.outputs + x}))
            return;
        }
      }
    }
  }

 private:
  // The outputs from `first` to `end` have an input.
  struct Along {
    std::int64_t first = 0, end = 1, stride = 1, shift = 0, inputs = 1, outputs = 1;

    [[nodiscard]] std::int64_t input_of(std::int64_t output) const {
      return output * stride + shift;
    }
  };

  // Always three dimensions: missing ones come first, with a length of 1.
  std::array<Along, 3> along_;
};

// A tap's connections that don't fall on padding.
using Tap = std::vector<Connection>;

// All taps of a kernel, the last dimension running fastest.
[[nodiscard]] std::vector<Tap> taps_of(const ConvolutionGeometry& geometry);

}  // namespace kolo
