#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

namespace kolo {

// A network that can be trained: a torch module with parameters, buffers and modes, and one input.
// As with every torch module, one thread at a time may use it.
class Network : public torch::nn::Module {
 public:
  // The outputs for a batch: input [N, ...] as the model was made for, result [N, ...]; for a
  // classifier the logits [N, classes]. Records for backward unless gradients are off.
  [[nodiscard]] virtual torch::Tensor forward(const torch::Tensor& input) = 0;
};

}  // namespace kolo
