#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/parallel/bucket_optimizer.h"
#include "kolo/parallel/gradient_hook.h"

namespace kolo {

// An optimizer over buckets that keeps only this rank's part of the state: ZeRO, stage 1
// (Rajbhandari et al., SC20). Every bucket is cut into as many equal parts as there are ranks. A
// step reduces a rank's part of the gradients, updates its part of the parameters and gathers
// everybody's, which moves as many bytes as the all-reduce it takes the place of. What is left of a
// bucket, fewer than 16 elements per rank, every rank updates for itself.
//
// The parameters are those of ArenaOptimizer, bit for bit, where gradients are reduced in the same
// order. The ranks make the same calls in the same order. One step:
//
//   backward, with gradient_hook() in the reducer
//   optional: wait for all buckets, clip_gradients()
//   for every bucket: wait for its gradients, update()
//   finish()
class ShardedArenaOptimizer final : public BucketOptimizer {
 public:
  // InputError for an optimizer that needs whole parameters (FlatOptimizer::is_layerwise): LARS and
  // LAMB.
  ShardedArenaOptimizer(const Communicator& communicator,
                        const std::shared_ptr<ParameterArena>& arena,
                        std::shared_ptr<const FlatOptimizer> optimizer);

  // Averages only what this rank's update() reads: afterwards a bucket holds averages in this
  // rank's part and what is left over, and this rank's own gradients elsewhere. (Fully averaged
  // gradients will do as well, at twice the traffic.)
  [[nodiscard]] std::shared_ptr<GradientHook> gradient_hook() const override;

  // Collective: an all-reduce of one number.
  [[nodiscard]] torch::Tensor squared_norm() const override;

  // Returns a copy, gathered on each rank or on one. Collective.
  [[nodiscard]] std::vector<NamedTensor> named_state(std::optional<int> only = {}) const override;
  void scatter_state(const Communicator& ranks, std::span<const std::int64_t> skipped_steps,
                     const FillState& fill) override;

  [[nodiscard]] bool is_sharded() const override { return true; }

 private:
  [[nodiscard]] std::vector<Own> own_parts(std::size_t bucket) const override;
  void end_bucket(std::size_t bucket) override;
  void end_step() override;

  [[nodiscard]] std::vector<torch::Tensor> averages(std::size_t bucket) const override;
  [[nodiscard]] std::vector<torch::Tensor> owned(const torch::Tensor& flat) const;

  Communicator communicator_;  // the arena's
  std::vector<Work> gathers_;
};

}  // namespace kolo
