#include "kolo/nn/network_replica.h"

#include <string>
#include <string_view>

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "kolo/base/error.h"
#include "kolo/base/generators.h"
#include "nn/tensor_text.h"

namespace kolo {

namespace {

[[noreturn]] void refuse(const std::string& difference) {
  throw Error(fmt::format(
      "nn: a replica has {}; it has to be made by what made the trained network", difference));
}

// `names`: gives the names of the replica's own tensors.
template <typename Names>
void require_alike(std::string_view what, TensorSpan own, TensorSpan given, const Names& names) {
  if (own.size() != given.size())
    refuse(fmt::format("{} {}s, but was given {}", own.size(), what, given.size()));
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].sizes() == given[i].sizes()) continue;
    refuse(fmt::format("{} {} [{}], but was given [{}]", what, names().keys()[i],
                       fmt::join(own[i].sizes().vec(), ", "),
                       fmt::join(given[i].sizes().vec(), ", ")));
  }
}

// Gives the module's tensors other memory.
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
  require_alike("parameter", parameters_, parameters, [&] { return network_->named_parameters(); });
  require_alike("buffer", buffers_, buffers, [&] { return network_->named_buffers(); });
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
