#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "kolo/base/graph_beginning.h"
#include "kolo/base/network_stage.h"

namespace kolo::parallel {

// The graph of one part of a network for one micro-batch. It begins where another rank has handed
// over what it has made. Gradients of a payload are listed for those of its tensors that require
// one, in their order; an undefined one is none.
class StageGraph {
 public:
  // The tensors as results of the graph's beginning, where `need_gradients` says so: in the same
  // memory, and such that operations may change them in place.
  [[nodiscard]] StagePayload begin(StagePayload payload, const std::vector<bool>& need_gradients);
  void end(StagePayload outputs) { outputs_ = std::move(outputs); }
  [[nodiscard]] const StagePayload& outputs() const { return outputs_; }

  // Goes back from what was made; returns the gradients of what begin() was given. Frees the graph.
  [[nodiscard]] StagePayload backward(const StagePayload& gradients);

 private:
  std::optional<GraphBeginning> beginning_;  // none: it begins with data
  StagePayload outputs_;
};

}  // namespace kolo::parallel
