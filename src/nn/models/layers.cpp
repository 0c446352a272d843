#include "nn/models/layers.h"

#include "kolo/nn/initialization.h"

namespace kolo {

Convolution2d padded_convolution(const ConvolutionShape& shape) {
  Convolution2d convolution(torch::nn::Conv2dOptions(shape.inputs, shape.outputs, shape.kernel)
                                .stride(shape.stride)
                                .padding(shape.kernel / 2)
                                .bias(shape.bias));
  if (shape.bias) torch::nn::init::zeros_(convolution->bias);
  return convolution;
}

torch::nn::Linear dense(std::int64_t inputs, std::int64_t outputs) {
  torch::nn::Linear linear(inputs, outputs);
  glorot_uniform(linear->weight);
  torch::nn::init::zeros_(linear->bias);
  return linear;
}

torch::nn::BatchNorm2d batch_norm(std::int64_t channels, const BatchNormSettings& settings) {
  return torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(channels)
                                    .eps(settings.epsilon)
                                    .momentum(1 - settings.momentum));
}

}  // namespace kolo
