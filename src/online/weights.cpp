#include "online/weights.h"

#include <utility>

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

LiveWeights::LiveWeights(const torch::nn::Module& module)
    : tensors_(module.parameters()), n_parameters_(tensors_.size()) {
  for (const auto& buffer : module.buffers()) tensors_.push_back(buffer);
  places_.resize(tensors_.size());
}

const Weights& LiveWeights::now() {
  bool has_moved = false;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const void* const place = tensors_[i].data_ptr();
    if (place == std::exchange(places_[i], place)) continue;
    has_moved = true;
  }
  if (!has_moved) return weights_;
  weights_ = {};
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    auto& group = i < n_parameters_ ? weights_.parameters : weights_.buffers;
    group.push_back(tensors_[i].detach());
  }
  return weights_;
}

}  // namespace kolo::online
