#pragma once

#include <memory>

#include "kolo/nn/models.h"

// Residual networks (He et al., arXiv:1512.03385): a stem, four stages of residual blocks, the mean
// over the image, one dense layer. Convolutions start from he_normal, the dense layer from
// glorot_uniform; biases from zero. Images of any size.
//
// Batch norms are elements of torch::nn::Sequential, so that they can be replaced.
namespace kolo {

// The NERSC tutorial's small network of 26 layers for small images (models/resnet.py, ResNetSmall):
// a 3x3 stem without pooling; in each stage, of width 64, 128, 256 and 512, one block with a
// convolution on its shortcut, which halves the image, and one without; blocks of 1x1, 3x3 and 1x1
// convolutions, all of the stage's width, with biases. As there, the batch norms of blocks without
// a convolution on the shortcut have momentum .9 and epsilon 1e-5, all others Keras's defaults of
// .99 and 1e-3.
[[nodiscard]] std::shared_ptr<Network> make_resnet_small(const ModelOptions& options);

// The tutorial's ResNet-50: a 7x7 stem of stride 2 and 3x3 max-pooling; 3, 4, 6 and 3 blocks, whose
// last convolution is four times as wide; a stage's first block has its stride on the first 1x1
// convolution and a convolution on the shortcut. Biases, momentum and epsilon as in resnet_small.
// 25583592 parameters for 1000 classes.
[[nodiscard]] std::shared_ptr<Network> make_resnet50(const ModelOptions& options);

// ResNet-34 in the paper's layout, as torchvision has it: the same stem; 3, 4, 6 and 3 blocks of
// two 3x3 convolutions without biases; the first block of all stages but the first halves the image
// and has a convolution on its shortcut. Momentum .9, epsilon 1e-5. 21797672 parameters for 1000
// classes.
[[nodiscard]] std::shared_ptr<Network> make_resnet34(const ModelOptions& options);

}  // namespace kolo
