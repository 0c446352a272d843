#include "kolo/nn/network_replica.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/generators.h"
#include "nn/tensor_text.h"

namespace kolo {

namespace {

using NamedTensors = torch::OrderedDict<std::string, torch::Tensor>;

bool are_alike(TensorSpan own, TensorSpan given) {
  return std::ranges::equal(own, given, [](const torch::Tensor& one, const torch::Tensor& other) {
    return one.sizes() == other.sizes();
  });
}

[[noreturn]] void refuse_tensors(std::string_view what, const NamedTensors& own, TensorSpan given) {
  std::string difference = fmt::format("{} {}s, but was given {}", own.size(), what, given.size());
  for (std::size_t i = 0; i < own.size() && own.size() == given.size(); ++i) {
    const auto& mine = own[i].value();
    if (mine.sizes() == given[i].sizes()) continue;
    difference =
        fmt::format("{} {} [{}], but was given [{}]", what, own[i].key(),
                    fmt::join(mine.sizes().vec(), ", "), fmt::join(given[i].sizes().vec(), ", "));
    break;
  }
  throw Error(fmt::format(
      "nn: a replica has {}; it has to be made by what made the trained network", difference));
}

// The same tensor in the module, another memory.
void take_memory(std::vector<torch::Tensor>& own, TensorSpan given) {
  for (std::size_t i = 0; i < own.size(); ++i) own[i].set_data(given[i]);
}

}  // namespace

NetworkReplica::NetworkReplica(const std::function<std::shared_ptr<TensorsNetwork>()>& make) {
  const KeepGenerators keeper;
  network_ = make();
  network_->eval();
  parameters_ = network_->parameters();
  buffers_ = network_->buffers();
  for (const torch::Tensor& parameter : parameters_) parameter.set_requires_grad(false);
}

void NetworkReplica::use(TensorSpan parameters, TensorSpan buffers) {
  if (!are_alike(parameters_, parameters))
    refuse_tensors("parameter", network_->named_parameters(), parameters);
  if (!are_alike(buffers_, buffers)) refuse_tensors("buffer", network_->named_buffers(), buffers);
  take_memory(parameters_, parameters);
  take_memory(buffers_, buffers);
}

void NetworkReplica::use(const torch::nn::Module& trained) {
  use(trained.parameters(), trained.buffers());
}

std::vector<torch::Tensor> NetworkReplica::infer(TensorSpan inputs) {
  const c10::InferenceMode inference;
  return network_->forward(inputs);
}

}  // namespace kolo
