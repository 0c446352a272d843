#include "parallel/pipeline/stage_graph.h"

#include <cstddef>

#include <torch/csrc/autograd/engine.h>

namespace kolo::parallel {

StagePayload StageGraph::begin(StagePayload payload, const std::vector<bool>& need_gradients) {
  for (std::size_t i = 0; i < payload.size(); ++i) {
    if (!need_gradients[i]) {
      payload[i] = payload[i].detach();
      continue;
    }
    if (!beginning_) beginning_.emplace();
    payload[i] = beginning_->attach(payload[i]);
  }
  return payload;
}

StageGraph::Roots StageGraph::roots_of(const StagePayload& gradients) const {
  Roots roots;
  std::size_t next = 0;
  for (const auto& output : outputs_) {
    if (!output.requires_grad()) continue;
    const auto& gradient = gradients[next++];
    if (!gradient.defined()) continue;
    roots.edges.push_back(torch::autograd::impl::gradient_edge(output));
    roots.slopes.push_back(gradient);
  }
  return roots;
}

StagePayload StageGraph::backward(const StagePayload& gradients) {
  const auto roots = roots_of(gradients);
  outputs_.clear();
  if (!roots.edges.empty()) {
    torch::autograd::Engine::get_default_engine().execute(
        roots.edges, roots.slopes, /*keep_graph=*/false, /*create_graph=*/false,
        /*accumulate_grad=*/true);
  }
  return beginning_ ? std::exchange(beginning_, std::nullopt)->take_gradients() : StagePayload();
}

StagePayload StageGraph::backward_to_inputs(const StagePayload& gradients) {
  gradients_ = gradients;
  if (!beginning_) return {};
  const auto roots = roots_of(gradients);
  const auto inputs = beginning_->edges();
  if (roots.edges.empty()) return StagePayload(inputs.size());
  return torch::autograd::Engine::get_default_engine().execute(
      roots.edges, roots.slopes, /*keep_graph=*/true, /*create_graph=*/false,
      /*accumulate_grad=*/false, inputs);
}

void StageGraph::backward_to_weights(std::span<const torch::Tensor> parameters) {
  const auto gradients = std::exchange(gradients_, {});
  // Where it begins with data nothing else is there to be computed.
  if (!beginning_) return void(backward(gradients));
  const auto roots = roots_of(gradients);
  outputs_.clear();
  torch::autograd::edge_list weights;
  for (const auto& parameter : parameters)
    weights.emplace_back(torch::autograd::impl::grad_accumulator(parameter), 0);
  if (!roots.edges.empty() && !weights.empty()) {
    torch::autograd::Engine::get_default_engine().execute(
        roots.edges, roots.slopes, /*keep_graph=*/false, /*create_graph=*/false,
        /*accumulate_grad=*/true, weights);
  }
  beginning_.reset();
}

std::vector<bool> gradient_needs(const StagePayload& payload) {
  std::vector<bool> needs;
  for (const auto& tensor : payload) needs.push_back(tensor.requires_grad());
  return needs;
}

}  // namespace kolo::parallel
