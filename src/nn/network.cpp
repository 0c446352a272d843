#include "kolo/nn/network.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <c10/util/Type.h>
#include <fmt/format.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/base/text.h"
#include "nn/tensor_text.h"

namespace kolo {

std::vector<torch::Tensor> Network::forward(std::span<const torch::Tensor> inputs) {
  if (inputs.size() != 1) {
    throw InputError(fmt::format("nn: the network takes 1 tensor, but got {}: {}", inputs.size(),
                                 shapes_of(inputs)));
  }
  return {forward(inputs.front())};
}

std::vector<NetworkStage> Network::stages() const {
  throw InputError(
      "nn: the network has no stages, so it can't be cut for a pipeline or computed again stage by "
      "stage; choose a model of kolo's catalogue other than torchscript, or override "
      "Network::stages()");
}

namespace {

bool is_in(const std::string& name, const std::string& module) {
  return name == module || (name.starts_with(module) && name[module.size()] == '.');
}

std::vector<std::string> names_to_freeze(const torch::nn::Module& network) {
  std::vector<std::string> names;
  for (const auto& item : network.named_modules("", /*include_self=*/false))
    names.push_back(item.key());
  for (const auto& item : network.named_parameters()) names.push_back(item.key());
  return names;
}

[[noreturn]] void refuse_to_freeze(const std::string& name, const torch::nn::Module& network) {
  const auto near = nearest(name, names_to_freeze(network));
  std::vector<std::string> children;
  for (const auto& child : network.named_children()) children.push_back(child.key());
  throw InputError(fmt::format("the network has no module or parameter {}{} It has {}", quote(name),
                               near.empty() ? "." : fmt::format("; did you mean {}?", quote(near)),
                               join(children)));
}

}  // namespace

void Network::freeze(std::span<const std::string> names) {
  for (const auto& name : names) {
    bool is_known = false;
    for (const auto& item : named_parameters()) {
      if (!is_in(item.key(), name)) continue;
      item.value().set_requires_grad(false);
      is_known = true;
    }
    if (const auto modules = named_modules("", false); modules.contains(name)) {
      frozen_.push_back(name);
      is_known = true;
    }
    if (!is_known) refuse_to_freeze(name, *this);
  }
  if (std::ranges::none_of(parameters(), &torch::Tensor::requires_grad))
    throw InputError("nothing is left to train; leave some of the network out");
  train(is_training());
}

void Network::train(bool on) {
  torch::nn::Module::train(on);
  if (!on || frozen_.empty()) return;
  const auto modules = named_modules("", false);
  for (const auto& name : frozen_) modules[name]->train(false);
}

void Network::share_samples(std::shared_ptr<const Partition> partition) {
  if (!partition) return;
  throw InputError(fmt::format(
      "model: samples of a network of type {} can't be shared by several ranks; unet3d's "
      "can",
      c10::demangle(typeid(*this).name())));
}

}  // namespace kolo
