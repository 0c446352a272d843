#pragma once

#include <memory>

#include "kolo/nn/models.h"

namespace kolo {

// The 3-D U-Net of the NERSC tutorial (networks/UNet.py), after Harrington et al.,
// arXiv:2106.12662: `levels` (6) convolutions of 4x4x4 and stride 2 with LeakyReLU (.01) make
// `channels` (64), twice, four times and from there on eight times as many channels of half the
// size each; as many transposed ones with ReLU lead back, each but the first also taking the output
// of the other side's convolution of its size. The last makes the output's channels and has a tanh.
// Weights are normal(0, .02), biases zero. 117.0 million parameters for 4 channels in and 5 out.
//
// Input [N, inputs, D, H, W], output [N, outputs, D, H, W], in channels-last memory; D, H and W
// multiples of 2^levels.
[[nodiscard]] std::shared_ptr<Network> make_unet3d(const ModelOptions& options);

}  // namespace kolo
