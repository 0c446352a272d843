#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <torch/types.h>

#include "kolo/comm/communicator.h"
#include "kolo/layout/virtual_ranks.h"
#include "kolo/parallel/gradient_hook.h"
#include "kolo/parallel/parameter_arena.h"

namespace kolo {

// Averages the gradients of virtual ranks in the order of kolo/layout/virtual_ranks.h: the same
// bits on any number of ranks, over any back end.
//
// A step: take() for each of this rank's parts but the last, whose gradients come as buckets, by
// average(). There a rank's sums are cut into slices, and each rank adds up one slice of all: an
// all-to-all and an all-gather, first among the ranks of a node, then among those of different
// nodes that have the same slice, so that nothing travels between nodes that all-reduce would not
// send. Of two ranks that have one sum each, all-reduce does the same.
//
// Keeps gradients in memory of its own: log2(parts of this rank) + 1 copies at most, rounded down.
class OrderedAverage final : public GradientHook {
 public:
  // For gradients of float32 and float64, as kolo's optimizers take no others. Collective.
  OrderedAverage(const Communicator& communicator, int virtual_ranks);

  // This rank's parts.
  [[nodiscard]] const PartRange& parts() const { return parts_; }

  // Takes the next part's gradients, which are undefined afterwards; undefined ones count as zeros.
  // Parts come in order.
  void take(const ParameterArena& arena);
  // Forgets what was taken: a step begins.
  void start_over();

  void average(const Communicator& communicator, const GradientBucket& bucket) override;
  [[nodiscard]] std::int64_t bytes_sent() const override { return bytes_; }
  void buckets_changed() override;

 private:
  using Sums = PartSums<torch::Tensor>;
  using Buffers = std::vector<torch::Tensor>;  // a flat one per bucket

  // Ranks that exchange slices, and which sums each of them has.
  struct Level {
    std::optional<Communicator> ranks;  // unset: those that average, whose communicator is given
    std::vector<std::vector<PartialSum>> sums;
  };

  void add_levels(const Communicator& communicator);
  [[nodiscard]] Buffers lend(const ParameterArena& arena);
  void reduce(const Communicator& all, std::size_t level, std::vector<Sums::Item> mine,
              const torch::Tensor& result);
  [[nodiscard]] std::vector<Sums::Item> exchange(
      const Communicator& ranks, const std::vector<std::vector<PartialSum>>& sums_of_ranks,
      const std::vector<Sums::Item>& mine, std::span<const std::int64_t> slices);

  int virtual_ranks_;
  PartRange parts_;
  std::vector<Level> levels_;
  PartSums<Buffers> taken_;
  int next_part_ = 0;
  std::vector<Buffers> unused_;
  std::atomic<std::int64_t> bytes_ = 0;  // read while steps go on
};

}  // namespace kolo
