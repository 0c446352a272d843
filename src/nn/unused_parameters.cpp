#include "nn/unused_parameters.h"

#include <unordered_set>

#include <torch/csrc/autograd/variable.h>

#include "kolo/base/graph_node.h"

namespace kolo {

namespace {

// Everything that backward would come to.
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
