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

// Base of kernels that compute a convolution as one product of matrices per tap.
class KernelByTaps : public ConvolutionKernel {
 protected:
  explicit KernelByTaps(const ConvolutionGeometry& geometry);

  // [positions of all samples, channels], the same memory.
  static torch::Tensor rows_of(const torch::Tensor& tensor, std::int64_t channels) {
    return tensor.as_strided({tensor.numel() / channels, channels}, {channels, 1});
  }

  // A tap's inputs x outputs matrix, of weights or of their gradients.
  [[nodiscard]] float* matrix(const torch::Tensor& weights, std::size_t tap) const {
    return weights.data_ptr<float>() +
           static_cast<std::int64_t>(tap) * geometry_.inputs * geometry_.outputs;
  }

  ConvolutionGeometry geometry_;
  std::int64_t positions_in_, positions_out_;
  std::vector<Tap> taps_;       // the last dimension running fastest
  std::int64_t most_rows_ = 1;  // of a tap, over all samples
};

}  // namespace kolo
