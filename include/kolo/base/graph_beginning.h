#pragma once

#include <utility>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include "kolo/base/graph_node.h"
#include "kolo/base/network_stage.h"

namespace kolo {

// Beginning of the graph of a part of a network, at which its backward ends. It keeps the gradients
// that arrive, in whatever memory order they have, which accumulation in a leaf would change.
// Unlike leaves its tensors may be changed in place.
class GraphBeginning {
 public:
  // Returns a tensor in the same memory, which begins here. It shares that tensor's version, so
  // that autograd notices when another part's backward still needs an overwritten value.
  [[nodiscard]] torch::Tensor attach(const torch::Tensor& tensor) {
    auto begun = tensor.detach();
    torch::autograd::impl::set_gradient_edge(begun, {node_, node_->add_input_metadata(begun)});
    return begun;
  }

  // Gradients, after backward, of the tensors that begin here; undefined where none has come.
  [[nodiscard]] StagePayload take_gradients() {
    node_->gradients.resize(node_->num_inputs());  // apply() is not called where none came at all
    return std::move(node_->gradients);
  }

 private:
  struct Node final : torch::autograd::Node {
    torch::autograd::variable_list apply(torch::autograd::variable_list&& came) override {
      gradients = std::move(came);
      return {};
    }
    StagePayload gradients;
  };

  GraphNodeOf<Node> node_ = make_graph_node<Node>();
};

}  // namespace kolo
