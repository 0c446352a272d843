#include "nn/models/building_blocks.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include "kernels/convolution_kernel.h"
#include "kernels/fused.h"
#include "kolo/base/error.h"
#include "kolo/kernels/linear.h"

namespace kolo::networks {

namespace {

bool is_for_taps(const ConvolutionShape& shape) {
  return shape.kernel > 1 && shape.positions > 0 && shape.positions <= most_tap_positions &&
         std::min(shape.inputs, shape.outputs) >= least_tap_channels;
}

struct Fans {
  double in = 0;
  double out = 0;
};

Fans fans_of(const torch::Tensor& weight) {
  const auto elements = static_cast<double>(weight.numel());
  return {elements / static_cast<double>(weight.size(0)),
          elements / static_cast<double>(weight.size(1))};
}

}  // namespace

torch::Tensor ChainNetwork::forward(const torch::Tensor& input) {
  return std::move(run_stages(stages_, {input}).front());
}

void ChainNetwork::add_stage(std::string name, Modules modules,
                             std::function<torch::Tensor(torch::Tensor)> forward) {
  stages_.push_back({std::move(name), std::move(modules),
                     [forward = std::move(forward)](StagePayload payload) -> StagePayload {
                       return {forward(std::move(payload.front()))};
                     }});
}

std::int64_t channels_of(const ModelOptions& shapes, std::string_view model, std::int64_t minimum) {
  const auto& shape = shapes.input_shape;
  if (shape.size() != 3) {
    throw InputError(
        fmt::format("model {}: the input's shape is [{}], expected an image: channels, height, "
                    "width",
                    model, fmt::join(shape.begin(), shape.end(), ", ")));
  }
  if (std::min(shape[1], shape[2]) < minimum) {
    throw InputError(
        fmt::format("model {}: images of {}x{} pixels are too small, expected at "
                    "least {}x{}",
                    model, shape[1], shape[2], minimum, minimum));
  }
  return shape[0];
}

void he_normal(const torch::Tensor& weight) {
  const torch::NoGradGuard no_gradient;
  // The standard deviation of a standard normal distribution cut off at -2 and 2.
  const double truncated_deviation = 0.87962566103423978;
  const double deviation = std::sqrt(2 / fans_of(weight).in) / truncated_deviation;
  const torch::Tensor values =
      torch::randn({weight.numel()}, weight.options().requires_grad(false));
  torch::Tensor outside = values.abs().gt(2).nonzero().flatten();
  while (outside.numel() > 0) {  // about one in twenty, to be drawn again
    const torch::Tensor again = torch::randn({outside.numel()}, values.options());
    values.index_copy_(0, outside, again);
    outside = outside.masked_select(again.abs().gt(2));
  }
  weight.copy_(values.mul_(deviation).view(weight.sizes()));
}

void glorot_uniform(const torch::Tensor& weight) {
  const torch::NoGradGuard no_gradient;
  const Fans fans = fans_of(weight);
  const double bound = std::sqrt(6 / (fans.in + fans.out));
  weight.uniform_(-bound, bound);
}

Convolution2d padded_convolution(const ConvolutionShape& shape) {
  Convolution2d convolution(torch::nn::Conv2dOptions(shape.inputs, shape.outputs, shape.kernel)
                                .stride(shape.stride)
                                .padding(shape.kernel / 2)
                                .bias(shape.bias));
  if (shape.bias) torch::nn::init::zeros_(convolution->bias);
  if (is_for_taps(shape)) keep_taps_first(convolution->weight);
  return convolution;
}

Linear dense(std::int64_t inputs, std::int64_t outputs) {
  Linear linear(inputs, outputs);
  glorot_uniform(linear->weight);
  torch::nn::init::zeros_(linear->bias);
  return linear;
}

torch::nn::BatchNorm2d batch_norm(std::int64_t channels, const BatchNormSettings& settings) {
  return torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(channels)
                                    .eps(settings.epsilon)
                                    .momentum(1 - settings.momentum));
}

torch::Tensor forward_fused(torch::nn::Sequential& layers, torch::Tensor input,
                            const torch::Tensor& addend) {
  torch::Tensor x = std::move(input);
  for (auto layer = layers->begin(); layer != layers->end(); ++layer) {
    const auto next = layer + 1;
    const bool is_last = next == layers->end();
    auto* const norm = dynamic_cast<torch::nn::BatchNorm2dImpl*>(layer->ptr().get());
    if (norm == nullptr) {
      x = layer->forward(x);
    } else if (is_last && addend.defined()) {
      return batch_norm(*norm, x, addend, Activation::relu);
    } else if (!is_last && dynamic_cast<torch::nn::ReLUImpl*>(next->ptr().get()) != nullptr) {
      x = batch_norm(*norm, x, {}, Activation::relu);
      layer = next;
    } else {
      x = batch_norm(*norm, x, {}, Activation::none);
    }
  }
  return addend.defined() ? x.add_(addend).relu_() : x;
}

}  // namespace kolo::networks
