#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/pooling.h>

#include "kolo/base/checked.h"
#include "kolo/kernels/linear.h"
#include "nn/models/building_blocks.h"

// Residual networks (He et al., arXiv:1512.03385): a stem, four stages of residual blocks, the mean
// over the image, one dense layer. Convolutions start from he_normal, the dense layer from
// glorot_uniform; biases from zero. Images of any size.
//
// Batch norms are elements of torch::nn::Sequential, so that they can be replaced.
namespace kolo::networks {

namespace {

enum class BlockKind { basic, bottleneck };

struct ResNetLayout {
  std::string_view name;
  BlockKind kind = BlockKind::basic;
  std::array<std::int64_t, 4> blocks{};  // of each stage
  std::int64_t expansion = 1;            // of the last convolution of a block
  std::int64_t first_stride = 1;         // of the first stage
  bool large_stem = true;                // 7x7 of stride 2 and 3x3 max-pooling, or 3x3
  bool bias = false;                     // in convolutions
  BatchNormSettings plain_block_norm;    // in blocks without a convolution on the shortcut
  BatchNormSettings norm;                // elsewhere
};

// Batch norms of the NERSC tutorial's networks, of two kinds.
constexpr BatchNormSettings tutorial_plain_block_norm{.momentum = 0.9, .epsilon = 1e-5};
constexpr BatchNormSettings tutorial_norm{.momentum = 0.99, .epsilon = 1e-3};

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

// Layers whose output is added to a block's shortcut: 1x1, 3x3, 1x1 with the stride on the first,
// or 3x3, 3x3.
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

class ResNet final : public ChainNetwork {
 public:
  ResNet(const ResNetLayout& layout, const ModelOptions& shapes) {
    Sequential stem =
        register_module("stem", stem_of(layout, channels_of(shapes, std::string(layout.name), 1)));
    add_stage("stem", {{"stem", stem.ptr()}},
              [stem](const torch::Tensor& x) mutable { return forward_fused(stem, x); });
    std::int64_t channels = stem_width;
    int halvings = layout.large_stem ? 2 : 0;
    for (std::size_t stage = 0; stage < layout.blocks.size(); ++stage) {
      const std::int64_t width = stem_width << stage;
      const std::int64_t outputs = width * layout.expansion;
      const auto name = fmt::format("stage{}", stage + 1);
      Sequential blocks;
      for (std::int64_t number = 0; number < layout.blocks[stage]; ++number) {
        const std::int64_t stride = number > 0 ? 1 : stage > 0 ? 2 : layout.first_stride;
        if (stride == 2) ++halvings;
        add_block(blocks, name, number + 1,
                  std::make_shared<ResidualBlock>(
                      layout, BlockShape{channels, width, outputs, stride,
                                         positions_of(shapes.input_shape, halvings)}));
        channels = outputs;
      }
      register_module(name, blocks);
    }
    Linear output = register_module("output", dense(channels, shapes.classes));
    add_stage("output", {{"output", output.ptr()}}, [output](const torch::Tensor& x) mutable {
      return output(torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
    });
  }

 private:
  static constexpr std::int64_t stem_width = 64;

  void add_block(Sequential& blocks, const std::string& stage, std::int64_t number,
                 const std::shared_ptr<ResidualBlock>& block) {
    const auto name = fmt::format("block{}", number);
    blocks->push_back(name, block);
    const auto whole_name = fmt::format("{}.{}", stage, name);
    add_stage(whole_name, {{whole_name, block}},
              [block](const torch::Tensor& x) { return block->forward(x); });
  }

  // Positions of an image whose height and width were halved so often, rounded up.
  static std::int64_t positions_of(const std::vector<std::int64_t>& input_shape, int halvings) {
    const std::int64_t factor = std::int64_t{1} << halvings;
    const auto length = [&](std::size_t i) { return divide_up(input_shape[i], factor); };
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
};

// The NERSC tutorial's small network of 26 layers (models/resnet.py, ResNetSmall). The first block
// of each stage halves the image, with a convolution on its shortcut.
constexpr ResNetLayout small_layout{.name = "resnet_small",
                                    .kind = BlockKind::bottleneck,
                                    .blocks = {2, 2, 2, 2},
                                    .expansion = 1,
                                    .first_stride = 2,
                                    .large_stem = false,
                                    .bias = true,
                                    .plain_block_norm = tutorial_plain_block_norm,
                                    .norm = tutorial_norm};

// ResNet-34 in the paper's layout, as torchvision has it: the first block of all stages but the
// first halves the image and has a convolution on its shortcut. ResNet34 sets the momentum to .9.
// 21797672 parameters for 1000 classes.
constexpr ResNetLayout layout_of_34{.name = "resnet34",
                                    .kind = BlockKind::basic,
                                    .blocks = {3, 4, 6, 3},
                                    .plain_block_norm = {.epsilon = 1e-5},
                                    .norm = {.epsilon = 1e-5}};

// The NERSC tutorial's ResNet-50: a stage's first block has its stride on the first 1x1 convolution
// and a convolution on the shortcut. 25583592 parameters for 1000 classes.
constexpr ResNetLayout layout_of_50{.name = "resnet50",
                                    .kind = BlockKind::bottleneck,
                                    .blocks = {3, 4, 6, 3},
                                    .expansion = 4,
                                    .bias = true,
                                    .plain_block_norm = tutorial_plain_block_norm,
                                    .norm = tutorial_norm};

template <const ResNetLayout& usual>
struct ResNetSettings {
  std::optional<double> batch_norm_momentum;  // of all batch norms, in Keras's sense

  [[nodiscard]] std::shared_ptr<Network> make(const ModelOptions& shapes) const {
    auto layout = usual;
    if (batch_norm_momentum)
      layout.norm.momentum = layout.plain_block_norm.momentum = *batch_norm_momentum;
    return std::make_shared<ResNet>(layout, shapes);
  }
};

template <typename Field, const ResNetLayout& usual>
void visit(Field& field, ResNetSettings<usual>& model) {
  field("batch_norm_momentum", model.batch_norm_momentum, fraction,
        Unset{"0.99, and 0.9 in blocks without a convolution on the shortcut"});
}

struct ResNet34 : ResNetSettings<layout_of_34> {
  void complete() { batch_norm_momentum = batch_norm_momentum.value_or(.9); }
};

template <typename Field>
void visit(Field& field, ResNet34& model) {
  field("batch_norm_momentum", model.batch_norm_momentum, fraction);
}

}  // namespace

ModelEntry resnet_small() {
  auto entry = entry_of<ResNetSettings<small_layout>>(
      "resnet_small",
      "residual network of 26 layers for small images; 7.7 million parameters on CIFAR-10");
  entry.l2 = 5e-5;
  return entry;
}

ModelEntry resnet34() {
  return entry_of<ResNet34>("resnet34",
                            "ResNet-34, basic blocks; 21.8 million parameters on ImageNet");
}

ModelEntry resnet50() {
  auto entry = entry_of<ResNetSettings<layout_of_50>>(
      "resnet50", "ResNet-50 as Keras has it; 25.6 million parameters on ImageNet");
  entry.l2 = 5e-5;
  return entry;
}

}  // namespace kolo::networks
