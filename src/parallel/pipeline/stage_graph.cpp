#include "parallel/pipeline/stage_graph.h"

#include <cstddef>

#include <torch/csrc/autograd/autograd.h>

namespace kolo::parallel {

StagePayload StageGraph::begin(StagePayload payload, const std::vector<bool>& need_gradients) {
  for (std::size_t i = 0; i < payload.size(); ++i) {
    if (!need_gradients[i]) {
      payload[i] = payload[i].detach();
      continue;
    }
    if (!beginning_) beginning_ = GraphBeginning::make();
    payload[i] = beginning_->attach(payload[i]);
  }
  return payload;
}

StagePayload StageGraph::backward(const StagePayload& gradients) {
  StagePayload roots, slopes;
  std::size_t next = 0;
  for (auto& output : outputs_) {
    if (!output.requires_grad()) continue;
    const auto& gradient = gradients[next++];
    if (!gradient.defined()) continue;
    roots.push_back(std::move(output));
    slopes.push_back(gradient);
  }
  outputs_.clear();
  if (!roots.empty()) torch::autograd::backward(roots, slopes);
  roots.clear();
  return beginning_ ? std::exchange(beginning_, nullptr)->take_gradients() : StagePayload();
}

std::vector<bool> gradient_needs(const StagePayload& payload) {
  std::vector<bool> needs;
  for (const auto& tensor : payload) needs.push_back(tensor.requires_grad());
  return needs;
}

}  // namespace kolo::parallel
