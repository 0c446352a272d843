#pragma once

#include <memory>

#include "kolo/nn/models.h"

// Two small networks for images of digits or the like. Both start from LibTorch's default
// initialization and accept any image size that leaves something to flatten.
namespace kolo {

// Conv 10 of 5x5, max-pool 2, relu; conv 20 of 5x5, channel dropout .5, max-pool 2, relu; linear
// 50, relu, dropout .5; linear to the classes. 21840 parameters for 1x28x28 and 10 classes.
[[nodiscard]] std::shared_ptr<Network> make_mnist_net(const ModelOptions& options);

// Conv 32 of 3x3, relu; conv 64 of 3x3, relu, max-pool 2, dropout .25; linear 128, relu, dropout
// .5; linear to the classes. 1199882 parameters for 1x28x28 and 10 classes.
[[nodiscard]] std::shared_ptr<Network> make_mnist_cnn(const ModelOptions& options);

}  // namespace kolo
