#include "online/weights.h"

#include "kolo/parallel/checks.h"

namespace kolo::online {

Weights Weights::of(const torch::nn::Module& module) {
  Weights weights;
  for (const auto& parameter : module.parameters())
    weights.parameters.push_back(parameter.detach());
  for (const auto& buffer : module.buffers()) weights.buffers.push_back(buffer.detach());
  return weights;
}

Weights Weights::copy() const {
  Weights copied = *this;
  for (auto* const tensors : {&copied.parameters, &copied.buffers}) {
    for (auto& tensor : *tensors) tensor = tensor.clone();
  }
  return copied;
}

std::vector<torch::Tensor> Weights::tensors() const {
  auto all = parameters;
  all.insert(all.end(), buffers.begin(), buffers.end());
  return all;
}

std::uint64_t Weights::checksum() const {
  std::uint64_t result = 1469598103934665603U;
  for (const auto& tensor : tensors()) result = (result ^ checksum_of(tensor)) * 1099511628211U;
  return result;
}

}  // namespace kolo::online
