#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include "kolo/base/graph_beginning.h"
#include "kolo/base/network_stage.h"

namespace kolo::parallel {

// The graph of one part of a network, or of a stage, for one micro-batch. It begins where another
// rank, or another part on this one, has handed over what it has made. Gradients of a payload are
// listed for those of its tensors that require one, in their order; an undefined one is none.
class StageGraph {
 public:
  // The tensors as results of the graph's beginning, where `need_gradients` says so: in the same
  // memory, and such that operations may change them in place.
  [[nodiscard]] StagePayload begin(StagePayload payload, const std::vector<bool>& need_gradients);
  void end(StagePayload outputs) { outputs_ = std::move(outputs); }
  [[nodiscard]] const StagePayload& outputs() const { return outputs_; }

  // Goes back from what was made; returns the gradients of what begin() was given. Frees the graph.
  [[nodiscard]] StagePayload backward(const StagePayload& gradients);

  // The same in two halves: first the gradients of what begin() was given alone, ...
  [[nodiscard]] StagePayload backward_to_inputs(const StagePayload& gradients);
  // ... later those of parameters, which are added up where autograd does it. Frees the graph.
  // What both need within the part is computed twice.
  void backward_to_weights(std::span<const torch::Tensor> parameters);

 private:
  // Where backward begins: outputs with gradients.
  struct Roots {
    torch::autograd::edge_list edges;
    torch::autograd::variable_list slopes;
  };
  [[nodiscard]] Roots roots_of(const StagePayload& gradients) const;

  std::optional<GraphBeginning> beginning_;  // none: it begins with data
  StagePayload outputs_;
  StagePayload gradients_;  // between the halves
};

// Which tensors of a payload require gradients.
[[nodiscard]] std::vector<bool> gradient_needs(const StagePayload& payload);

}  // namespace kolo::parallel
