#include "parallel/optimizers/bucket_runs.h"

#include <algorithm>

namespace kolo::parallel {

namespace {

bool is_vector(const BucketPlan& plan, const BucketEntry& entry) {
  return plan.parameters[entry.parameter].shape.size() <= 1;
}

}  // namespace

std::vector<BucketRun> runs_of(const BucketPlan& plan, std::size_t bucket,
                               const FlatOptimizer& optimizer, std::int64_t begin,
                               std::int64_t end) {
  const auto& entries = plan.buckets[bucket].entries;
  std::vector<BucketRun> runs;
  if (optimizer.is_layerwise()) {
    for (const BucketEntry& entry : entries)
      runs.push_back({entry.offset, entry.count, is_vector(plan, entry)});
    return runs;
  }
  if (!optimizer.spares_vectors()) return {{begin, end - begin, false}};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const bool kind = is_vector(plan, entries[i]);
    const std::int64_t from = std::max(begin, entries[i].offset);
    const std::int64_t to = i + 1 < entries.size() ? std::min(end, entries[i + 1].offset) : end;
    if (from >= to) continue;
    if (!runs.empty() && runs.back().is_vector == kind)
      runs.back().count = to - runs.back().offset;
    else
      runs.push_back({from, to - from, kind});
  }
  return runs;
}

}  // namespace kolo::parallel
