#include "nn/models/resnet.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/pooling.h>

#include "kolo/base/checked.h"
#include "kolo/nn/initialization.h"

namespace kolo::networks {

namespace {

using torch::nn::Sequential;

struct BlockShape {
  std::int64_t inputs = 0;
  std::int64_t width = 0;
  std::int64_t outputs = 0;
  std::int64_t stride = 1;
  std::int64_t positions = 0;  // of its output, height x width

  // Whether the shortcut needs a convolution to fit what it is added to.
  [[nodiscard]] bool projects() const { return stride != 1 || inputs != outputs; }
};

torch::nn::ReLU relu() {
  return torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true));
}

void push_convolution(Sequential& layers, const std::string& number, const ConvolutionShape& shape,
                      const BatchNormSettings& norm) {
  const auto convolution = padded_convolution(shape);
  he_normal(convolution->weight);
  layers->push_back("convolution" + number, convolution);
  layers->push_back("norm" + number, batch_norm(shape.outputs, norm));
}

// What a block adds to its shortcut: 1x1, 3x3, 1x1 with the stride on the first, or 3x3, 3x3.
Sequential residual_of(const ResNetLayout& layout, const BlockShape& shape,
                       const BatchNormSettings& norm) {
  const std::int64_t width = shape.width;
  std::vector<ConvolutionShape> convolutions;
  if (layout.kind == BlockKind::bottleneck) {
    convolutions = {{shape.inputs, width, 1, shape.stride, layout.bias},
                    {width, width, 3, 1, layout.bias, shape.positions},
                    {width, shape.outputs, 1, 1, layout.bias}};
  } else {
    convolutions = {{shape.inputs, width, 3, shape.stride, layout.bias},
                    {width, shape.outputs, 3, 1, layout.bias, shape.positions}};
  }
  Sequential layers;
  for (std::size_t index = 0; index < convolutions.size(); ++index) {
    if (index > 0) layers->push_back(fmt::format("relu{}", index), relu());
    push_convolution(layers, std::to_string(index + 1), convolutions[index], norm);
  }
  return layers;
}

class ResidualBlock final : public torch::nn::Module {
 public:
  ResidualBlock(const ResNetLayout& layout, const BlockShape& shape) {
    const auto& norm = shape.projects() ? layout.norm : layout.plain_block_norm;
    residual_ = register_module("residual", residual_of(layout, shape, norm));
    if (!shape.projects()) return;
    Sequential shortcut;
    push_convolution(shortcut, "", {shape.inputs, shape.outputs, 1, shape.stride, layout.bias},
                     norm);
    shortcut_ = register_module("shortcut", shortcut);
  }

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor shortcut = shortcut_.is_empty() ? input : forward_fused(shortcut_, input);
    return forward_fused(residual_, input, shortcut);
  }

 private:
  Sequential residual_{nullptr};
  Sequential shortcut_{nullptr};
};

class ResNet final : public Network {
 public:
  ResNet(const ResNetLayout& layout, const ModelOptions& shapes)
      : stem_(register_module("stem", stem_of(layout, channels_of(shapes, layout.name, 1)))) {
    std::int64_t channels = stem_width;
    int halvings = layout.large_stem ? 2 : 0;
    for (std::size_t stage = 0; stage < layout.blocks.size(); ++stage) {
      const std::int64_t width = stem_width << stage;
      const std::int64_t outputs = width * layout.expansion;
      Sequential blocks;
      for (std::int64_t block = 0; block < layout.blocks[stage]; ++block) {
        const std::int64_t stride = block > 0 ? 1 : stage > 0 ? 2 : layout.first_stride;
        if (stride == 2) ++halvings;
        blocks->push_back(fmt::format("block{}", block + 1),
                          std::make_shared<ResidualBlock>(
                              layout, BlockShape{channels, width, outputs, stride,
                                                 positions_of(shapes.input_shape, halvings)}));
        channels = outputs;
      }
      stages_.push_back(register_module(fmt::format("stage{}", stage + 1), blocks));
    }
    output_ = register_module("output", dense(channels, shapes.classes));
  }

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input) override {
    torch::Tensor x = forward_fused(stem_, input);
    for (Sequential& stage : stages_) x = stage->forward(x);
    return output_(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

 private:
  static constexpr std::int64_t stem_width = 64;

  // Of an image whose height and width were halved so often, rounded up.
  static std::int64_t positions_of(const std::vector<std::int64_t>& input_shape, int halvings) {
    const std::int64_t factor = std::int64_t{1} << halvings;
    const auto length = [&](std::size_t i) { return (input_shape[i] + factor - 1) / factor; };
    return checked_multiply(length(1), length(2));
  }

  static Sequential stem_of(const ResNetLayout& layout, std::int64_t channels) {
    Sequential layers;
    const std::int64_t kernel = layout.large_stem ? 7 : 3;
    const std::int64_t stride = layout.large_stem ? 2 : 1;
    push_convolution(layers, "", {channels, stem_width, kernel, stride, layout.bias}, layout.norm);
    layers->push_back("relu", relu());
    if (layout.large_stem) {
      // Padding doesn't count for a maximum; Keras pads with zeros, which after a relu is the same.
      layers->push_back("pool",
                        torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).padding(1)));
    }
    return layers;
  }

  Sequential stem_;
  std::vector<Sequential> stages_;
  torch::nn::Linear output_{nullptr};
};

}  // namespace

std::shared_ptr<Network> make_resnet(ResNetLayout layout, const ModelOptions& shapes,
                                     std::optional<double> batch_norm_momentum) {
  if (batch_norm_momentum)
    layout.norm.momentum = layout.plain_block_norm.momentum = *batch_norm_momentum;
  return std::make_shared<ResNet>(layout, shapes);
}

}  // namespace kolo::networks
