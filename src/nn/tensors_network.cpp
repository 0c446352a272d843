#include "kolo/nn/tensors_network.h"

#include <utility>

#include <fmt/format.h>

#include "kolo/base/error.h"
#include "nn/tensor_text.h"

namespace kolo {

namespace {

// Registers what is in the network as its own, so that names have no prefix.
class SingleTensorNetwork final : public TensorsNetwork {
 public:
  explicit SingleTensorNetwork(std::shared_ptr<Network> network) : network_(std::move(network)) {
    for (const auto& item : network_->named_parameters(/*recurse=*/false))
      register_parameter(item.key(), item.value(), item.value().requires_grad());
    for (const auto& item : network_->named_buffers(/*recurse=*/false))
      register_buffer(item.key(), item.value());
    for (const auto& item : network_->named_children()) register_module(item.key(), item.value());
    if (!network_->is_training()) eval();
  }

  [[nodiscard]] std::vector<torch::Tensor> forward(std::span<const torch::Tensor> inputs) override {
    if (inputs.size() != 1) {
      throw InputError(fmt::format("nn: the network takes 1 tensor, but got {}: {}", inputs.size(),
                                   shapes_of(inputs)));
    }
    return {network_->forward(inputs.front())};
  }

  void train(bool on) override {
    TensorsNetwork::train(on);
    network_->train(on);
  }

 private:
  std::shared_ptr<Network> network_;
};

}  // namespace

std::shared_ptr<TensorsNetwork> as_tensors_network(std::shared_ptr<Network> network) {
  return std::make_shared<SingleTensorNetwork>(std::move(network));
}

}  // namespace kolo
