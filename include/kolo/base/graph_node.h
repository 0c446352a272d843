#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

namespace kolo {

// Shares a node of autograd's graph as LibTorch's own edges do: std::shared_ptr in LibTorch 1.13
// and 2.6, c10::intrusive_ptr in 2.15.
using GraphNode = decltype(torch::autograd::Edge::function);
template <typename Node>
using GraphNodeOf =
    std::conditional_t<std::is_same_v<GraphNode, std::shared_ptr<torch::autograd::Node>>,
                       std::shared_ptr<Node>, c10::intrusive_ptr<Node>>;

// Makes a node as LibTorch makes its own. A shared one is freed by LibTorch's deleteNode(), without
// recursion through a long graph; LibTorch 2.15, which does not have it, frees all nodes so.
template <typename Node, typename... Arguments>
[[nodiscard]] GraphNodeOf<Node> make_graph_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<GraphNodeOf<Node>, std::shared_ptr<Node>>) {
    return GraphNodeOf<Node>(new Node(std::forward<Arguments>(arguments)...),
                             [](Node* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
  }
}

}  // namespace kolo
