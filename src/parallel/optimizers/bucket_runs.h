#pragma once

#include <cstdint>
#include <vector>

#include "kolo/optim/flat_optimizer.h"
#include "kolo/parallel/bucket_plan.h"

namespace kolo::parallel {

// A stretch of a bucket that an optimizer takes in one call, in elements.
struct BucketRun {
  std::int64_t offset = 0;  // from the bucket's start
  std::int64_t count = 0;
  bool is_vector = false;  // see FlatSlice
};

// How elements [begin, end) of a bucket have to be cut for the optimizer: not at all, between
// vectors and other parameters, or into whole parameters. The gaps between parameters belong to the
// run before them, except that whole parameters come without; then the stretch must be the whole
// bucket.
[[nodiscard]] std::vector<BucketRun> runs_of(const BucketPlan& plan, std::size_t bucket,
                                             const FlatOptimizer& optimizer, std::int64_t begin,
                                             std::int64_t end);

}  // namespace kolo::parallel
