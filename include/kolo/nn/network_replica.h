#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <torch/types.h>

#include "kolo/nn/network.h"

namespace kolo {

// A second network in evaluation mode that computes with the parameters and buffers of the one that
// is trained, in their very memory: outputs follow its updates, and its training mode is never
// touched. Not thread-safe by itself: whoever infers on several threads has a replica for each, and
// sees to it that nothing writes the parameters meanwhile.
class NetworkReplica {
 public:
  // `make` makes the trained network's like, from the same function or file. What it draws from
  // torch's default generator is put back, so nobody else may draw from it meanwhile. Until use()
  // the parameters are those that it made.
  explicit NetworkReplica(const std::function<std::shared_ptr<TensorsNetwork>()>& make);

  // From now on computes with these, in the order of parameters() and buffers(), whatever their
  // type and device. Copies no values, and costs some 0.1 us per tensor. That memory stays until
  // the next call. To be called again when they have moved to other memory, as those of an arena do
  // after the first step. Error for another number or other shapes; nothing has changed then.
  void use(std::span<const torch::Tensor> parameters, std::span<const torch::Tensor> buffers);
  // Uses a network's parameters and buffers.
  void use(const torch::nn::Module& trained);

  // The outputs, without gradients. They are inference tensors (c10::InferenceMode): values to be
  // read or copied, not to be trained on. Errors as TensorsNetwork::forward().
  [[nodiscard]] std::vector<torch::Tensor> infer(std::span<const torch::Tensor> inputs);

 private:
  std::shared_ptr<TensorsNetwork> network_;
  std::vector<torch::Tensor> parameters_, buffers_;
};

}  // namespace kolo
