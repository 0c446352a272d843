#pragma once

#include <memory>

#include "kolo/nn/models.h"

namespace kolo {

// The small classifier of the NERSC tutorial (models/cnn.py): three times a 3x3 convolution (16,
// 32, 64), relu and 2x2 max-pooling; dense 128, relu, dropout (0 unless given), dense. Weights are
// glorot_uniform and biases zero, as is Keras's default. 156074 parameters for 3x32x32 and 10
// classes. Images of at least 8x8.
[[nodiscard]] std::shared_ptr<Network> make_cnn(const ModelOptions& options);

}  // namespace kolo
