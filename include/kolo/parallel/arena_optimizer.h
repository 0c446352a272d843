#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kolo/comm/communicator.h"
#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/bucket_optimizer.h"
#include "kolo/parallel/parameter_arena.h"

namespace kolo {

// Conditions under which the ranks of a node share an optimizer's steps. The node then has one copy
// of the parameters: for programs in which nothing but the optimizer changes them, since a rank
// writes into the parameters of all (see ParameterArena::share_parameters).
struct StepSharing {
  bool enabled = false;
  // Least bytes of parameters. A shared step takes two meetings of the node's ranks, which a small
  // network's update isn't worth.
  std::int64_t smallest_bytes = std::int64_t{1} << 20;
  // Lets update() average the gradients of the node's ranks, in the pass that uses them, where all
  // ranks are on one node: the same bits for less memory traffic, but no rank ever has the average
  // (ReducerOptions::averages). For programs that don't look at it.
  bool averages = false;
};

// Tells whether ranks of a node that can share memory share the steps of an optimizer over
// parameters of so many bytes. One that needs whole parameters (FlatOptimizer::is_layerwise) is
// never shared.
[[nodiscard]] bool is_worth_sharing(const FlatOptimizer& optimizer, std::int64_t parameter_bytes,
                                    const StepSharing& sharing);

// An optimizer over buckets whose state is in buffers laid out like the arena's, on each rank or
// once a node.
class ArenaOptimizer final : public BucketOptimizer {
 public:
  ArenaOptimizer(std::shared_ptr<ParameterArena> arena,
                 std::shared_ptr<const FlatOptimizer> optimizer);
  // The ranks of a node share its steps where they can share memory, the parameters are the host's,
  // and it is worth it (is_worth_sharing): each rank updates its part of every bucket, bit for bit
  // as it would alone, for all of the node, and parameters and state are there once per node. The
  // arena's parameters move for it. Collective. The ranks then make the same calls in the same
  // order, and a rank's first update() of a step waits for the backward passes of all ranks of its
  // node.
  ArenaOptimizer(const Communicator& communicator, const std::shared_ptr<ParameterArena>& arena,
                 std::shared_ptr<const FlatOptimizer> optimizer, const StepSharing& sharing);

  // Returns views; local.
  [[nodiscard]] std::vector<NamedTensor> named_state(std::optional<int> only = {}) const override;
  void scatter_state(const Communicator& ranks, std::span<const std::int64_t> skipped_steps,
                     const FillState& fill) override;

  [[nodiscard]] bool is_shared() const override { return node_.has_value(); }
  [[nodiscard]] bool averages_in_update() const override { return averages_; }

 private:
  [[nodiscard]] std::vector<Own> own_parts(std::size_t bucket) const override;
  [[nodiscard]] std::vector<torch::Tensor> gradients_to_average(std::size_t bucket) const override;
  void begin_step() override;
  void end_step() override;

  void allocate_state();
  void share_steps(const Communicator& communicator, bool averages);

  // Ranks that average, and those of this node; none unless steps are shared. All ranks of a node
  // make the same calls; between begin_step() and end_step() each reads only its own parameters.
  std::optional<Communicator> all_, node_;
  bool averages_ = false;  // gradients, in update()
};

}  // namespace kolo
