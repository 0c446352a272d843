#pragma once

#include <array>
#include <optional>
#include <string>

#include "nn/models/model_parts.h"

// Residual networks (He et al., arXiv:1512.03385): a stem, four stages of residual blocks, the mean
// over the image, one dense layer. Convolutions start from he_normal, the dense layer from
// glorot_uniform; biases from zero. Images of any size.
//
// Batch norms are elements of torch::nn::Sequential, so that they can be replaced.
namespace kolo::networks {

enum class BlockKind { basic, bottleneck };

struct ResNetLayout {
  std::string name;
  BlockKind kind = BlockKind::basic;
  std::array<std::int64_t, 4> blocks{};  // of each stage
  std::int64_t expansion = 1;            // of the last convolution of a block
  std::int64_t first_stride = 1;         // of the first stage
  bool large_stem = true;                // 7x7 of stride 2 and pooling, or 3x3
  bool bias = false;                     // in convolutions
  BatchNormSettings plain_block_norm;    // in blocks without a convolution on the shortcut
  BatchNormSettings norm;                // elsewhere
};

// `batch_norm_momentum`: instead of those of the layout.
[[nodiscard]] std::shared_ptr<Network> make_resnet(
    ResNetLayout layout, const ModelOptions& shapes,
    std::optional<double> batch_norm_momentum = std::nullopt);

// Of the NERSC tutorial's networks: batch norms of two kinds, and the key that sets both.
inline constexpr BatchNormSettings tutorial_plain_block_norm{.momentum = 0.9, .epsilon = 1e-5};
inline constexpr BatchNormSettings tutorial_norm{.momentum = 0.99, .epsilon = 1e-3};

template <typename Field>
void visit_tutorial_momentum(Field& field, std::optional<double>& momentum) {
  field("batch_norm_momentum", momentum, fraction,
        Unset{"0.99, and 0.9 in blocks without a convolution on the shortcut"});
}

}  // namespace kolo::networks
