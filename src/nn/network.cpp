#include "kolo/nn/network.h"

#include <algorithm>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include <c10/util/Type.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include "kolo/base/error.h"
#include "kolo/base/graph_node.h"
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

namespace {

// All nodes that backward would reach.
std::unordered_set<const torch::autograd::Node*> nodes_behind(const torch::Tensor& output) {
  std::unordered_set<const torch::autograd::Node*> met;
  std::vector<const torch::autograd::Node*> next;
  if (output.requires_grad())
    next.push_back(torch::autograd::impl::gradient_edge(output).function.get());
  while (!next.empty()) {
    const auto* const node = next.back();
    next.pop_back();
    if (node == nullptr || !met.insert(node).second) continue;
    for (const auto& edge : node->next_edges()) next.push_back(edge.function.get());
  }
  return met;
}

}  // namespace

std::vector<std::string> find_unused_parameters(Network& network,
                                                std::span<const std::int64_t> input_shape) {
  const torch::AutoGradMode with_gradients(true);
  std::vector<std::int64_t> shape = {1};
  shape.insert(shape.end(), input_shape.begin(), input_shape.end());
  const auto parameters = network.named_parameters();
  if (parameters.is_empty()) return {};
  std::vector<GraphNode> accumulators;  // kept, as the graph alone would own them otherwise
  for (const auto& item : parameters) {
    accumulators.push_back(item.value().requires_grad()
                               ? torch::autograd::impl::grad_accumulator(item.value())
                               : GraphNode());
  }
  network.eval();  // one sample is too few for a batch norm in training
  const auto output = network.forward(torch::zeros(shape, parameters[0].value().options()));
  network.train();
  const auto used = nodes_behind(output);
  std::vector<std::string> unused;
  for (std::size_t i = 0; i < accumulators.size(); ++i)
    if (accumulators[i] && used.count(accumulators[i].get()) == 0)
      unused.push_back(parameters[i].key());
  return unused;
}

}  // namespace kolo
