#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include "kolo/base/network_stage.h"

namespace kolo {

// Where the graph of a part of a network begins, and its backward ends: keeps the gradients that
// come to it, in whatever memory order they have, which accumulation in a leaf would change. Unlike
// leaves its tensors may be changed in place.
class GraphBeginning final : public torch::autograd::Node {
 public:
  [[nodiscard]] static std::shared_ptr<GraphBeginning> make() {
    return std::shared_ptr<GraphBeginning>(new GraphBeginning, torch::autograd::deleteNode);
  }

  // A tensor in the same memory as the next one that begins here. It shares that tensor's version,
  // so that autograd notices where somebody overwrites what another part's backward still needs.
  [[nodiscard]] torch::Tensor attach(const torch::Tensor& tensor) {
    auto begun = tensor.detach();
    torch::autograd::impl::set_gradient_edge(begun,
                                             {shared_from_this(), add_input_metadata(begun)});
    return begun;
  }

  // Of the tensors that begin here, for who asks the engine for their gradients itself.
  [[nodiscard]] torch::autograd::edge_list edges() {
    torch::autograd::edge_list all;
    for (std::uint32_t i = 0; i < num_inputs(); ++i) all.emplace_back(shared_from_this(), i);
    return all;
  }

  // After backward: of each tensor that begins here, undefined where none has come.
  [[nodiscard]] StagePayload take_gradients() {
    gradients_.resize(num_inputs());  // where no gradient came at all, apply() was not called
    return std::move(gradients_);
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    gradients_ = std::move(gradients);
    return {};
  }

 private:
  GraphBeginning() = default;

  StagePayload gradients_;
};

}  // namespace kolo
