#pragma once

#include <cstdint>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "kolo/nn/convolution.h"

// Layers with the initialization that the networks of the Keras tutorials have.
namespace kolo {

struct ConvolutionShape {
  std::int64_t inputs = 0;  // channels
  std::int64_t outputs = 0;
  std::int64_t kernel = 1;  // height and width
  std::int64_t stride = 1;
  bool bias = true;
  std::int64_t positions = 0;  // of its input, height x width; 0: not known
};

// A convolution padded by kernel / 2 on every side, its bias zero, its weights not yet initialized.
// Where it will be computed by taps, its weight's memory has the taps first.
// With an odd kernel and stride 1 that is Keras's padding 'same'.
[[nodiscard]] Convolution2d padded_convolution(const ConvolutionShape& shape);

// A fully connected layer: glorot_uniform weights, zero bias.
[[nodiscard]] torch::nn::Linear dense(std::int64_t inputs, std::int64_t outputs);

struct BatchNormSettings {
  double momentum = 0.99;  // in Keras's sense
  double epsilon = 1e-3;
};

[[nodiscard]] torch::nn::BatchNorm2d batch_norm(std::int64_t channels,
                                                const BatchNormSettings& settings);

// What layers->forward(input) computes, and with an addend relu(that + addend); batch norms take
// the ReLU or the addend after them along (nn/kernels/batch_norm.h).
[[nodiscard]] torch::Tensor forward_fused(torch::nn::Sequential& layers, torch::Tensor input,
                                          const torch::Tensor& addend = {});

}  // namespace kolo
