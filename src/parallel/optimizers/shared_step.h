#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/parameter_arena.h"

namespace kolo::parallel {

// The ranks of a node that share the steps of an optimizer: each updates its part of every bucket
// and writes the new parameters into the others' memory too, for which an arena's parameters lie in
// memory that the node shares. Optimizer state lies in memory that is one for the node, of which a
// rank writes its part only.
//
// All ranks of the node call the same methods in the same order. A step: begin(), publish() of
// everything that was updated, end(). Nobody may read parameters between begin() and end() but for
// the part that is its own.
class SharedStep {
 public:
  // Nothing where the ranks of this node can't share memory. Collective over `all`.
  [[nodiscard]] static std::optional<SharedStep> make(const Communicator& all,
                                                      const ParameterArena& arena, bool one_copy);
  // Moves the arena's parameters to where steps update them. Collective over the node.
  void take_parameters(ParameterArena& arena) const;

  // Elements of a bucket.
  struct Part {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  [[nodiscard]] Part own_part(std::size_t bucket) const;

  // Flat tensors laid out like the parameters and filled with a value, one memory for the node, of
  // which a rank's own part lies near it; nothing where there is no room for it (on all ranks of
  // the node). Collective.
  [[nodiscard]] std::optional<std::vector<torch::Tensor>> allocate_like_parameters(
      double value) const;

  // Blocks until all ranks of the node have come: their backward passes are done, and nobody needs
  // the old parameters any more. Error on all ranks where one of any node has joined.
  void begin() const;
  // Copies elements [begin, end) of a bucket's parameters to the other ranks.
  void publish(std::size_t bucket, std::int64_t begin, std::int64_t end) const;
  // Blocks until all ranks of the node have published what they updated.
  void end() const { node_.barrier({.name = "shared step ends"}); }

 private:
  SharedStep(Communicator all, Communicator node, const ParameterArena& arena);

  [[nodiscard]] bool allocate_parameters(bool one_copy);
  // Flat tensors in memory of the whole node's, of which this rank writes its part.
  [[nodiscard]] std::vector<torch::Tensor> filled(const std::shared_ptr<std::byte>& memory,
                                                  double value) const;

  Communicator all_;  // on which the gradients have come
  Communicator node_;
  const ParameterArena& arena_;
  std::vector<std::shared_ptr<std::byte>> parameters_;  // by local rank; none on one of its own
  std::shared_ptr<std::byte> only_parameters_;          // the node's, where it has one copy
};

}  // namespace kolo::parallel
