#include "parallel/pipeline/stage_graph.h"

#include <cstddef>

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

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

StagePayload StageGraph::backward(const StagePayload& gradients) {
  torch::autograd::edge_list roots;
  torch::autograd::variable_list slopes;
  std::size_t next = 0;
  for (const auto& output : std::exchange(outputs_, {})) {
    if (!output.requires_grad()) continue;
    const auto& gradient = gradients[next++];
    if (!gradient.defined()) continue;
    roots.push_back(torch::autograd::impl::gradient_edge(output));
    slopes.push_back(gradient);
  }
  if (!roots.empty()) {
    torch::autograd::Engine::get_default_engine().execute(roots, slopes, /*keep_graph=*/false,
                                                          /*create_graph=*/false,
                                                          /*accumulate_grad=*/true);
  }
  return beginning_ ? std::exchange(beginning_, std::nullopt)->take_gradients() : StagePayload();
}

}  // namespace kolo::parallel
