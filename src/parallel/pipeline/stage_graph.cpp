#include "parallel/pipeline/stage_graph.h"

#include <cstddef>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace kolo::parallel {

// Where backward ends: keeps the gradients that come to it, in whatever memory order they have,
// which accumulation in a leaf would change.
class GraphBeginning final : public torch::autograd::Node {
 public:
  [[nodiscard]] StagePayload take_gradients() {
    gradients_.resize(num_inputs());  // where no gradient came at all, apply() was not called
    return std::move(gradients_);
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    gradients_ = std::move(gradients);
    return {};
  }

 private:
  StagePayload gradients_;
};

StagePayload StageGraph::begin(StagePayload payload, const std::vector<bool>& need_gradients) {
  for (std::size_t i = 0; i < payload.size(); ++i) {
    // Not in memory of its own, but unknown to the graph that made it. It shares that tensor's
    // version, so that autograd notices who overwrites what another part's backward still needs.
    payload[i] = payload[i].detach();
    if (!need_gradients[i]) continue;
    if (!beginning_)
      beginning_ = std::shared_ptr<GraphBeginning>(new GraphBeginning, torch::autograd::deleteNode);
    const auto place = beginning_->add_input_metadata(payload[i]);
    torch::autograd::impl::set_gradient_edge(payload[i], {beginning_, place});
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
