#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/parameter_arena.h"

namespace kolo::parallel {

// A stretch of a bucket that an optimizer takes in one call, in elements.
struct BucketRun {
  std::int64_t offset = 0;  // from the bucket's start
  std::int64_t count = 0;
  bool is_vector = false;  // see FlatSlice
  std::int64_t step = 1;   // of these parameters, from 1
};

// Which steps each parameter of an arena has left out: those in which it took no part (see
// ParameterArena::takes_part). As in torch::optim a parameter's steps are counted apart, which
// matters to what is corrected by their number.
class SkippedSteps {
 public:
  explicit SkippedSteps(std::size_t parameters) : counts_(parameters, 0) {}

  // A step of a bucket: counts the parameters that are left out of it.
  void begin(const ParameterArena& arena, std::size_t bucket);

  // By parameter; for checkpoints.
  [[nodiscard]] std::span<std::int64_t> counts() { return counts_; }
  [[nodiscard]] std::span<const std::int64_t> counts() const { return counts_; }

 private:
  std::vector<std::int64_t> counts_;
};

// How elements [begin, end) of a bucket have to be cut for the optimizer: where parameters are left
// out of the step or have made fewer of them, between vectors and other parameters, or into whole
// parameters; most often not at all. The gaps between parameters belong to the run before them,
// except that whole parameters come without; then the stretch must be the whole bucket. `step` is
// that of parameters that have left out none.
[[nodiscard]] std::vector<BucketRun> runs_of(const ParameterArena& arena, std::size_t bucket,
                                             const FlatOptimizer& optimizer,
                                             const SkippedSteps& skipped, std::int64_t step,
                                             std::int64_t begin, std::int64_t end);

}  // namespace kolo::parallel
