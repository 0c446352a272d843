#include "parallel/optimizers/bucket_runs.h"

#include <algorithm>

namespace kolo::parallel {

void SkippedSteps::begin(const ParameterArena& arena, std::size_t bucket) {
  for (const BucketEntry& entry : arena.plan().buckets[bucket].entries) {
    if (!arena.takes_part(entry.parameter)) ++counts_[entry.parameter];
  }
}

std::vector<BucketRun> runs_of(const ParameterArena& arena, std::size_t bucket,
                               const FlatOptimizer& optimizer, const SkippedSteps& skipped,
                               std::int64_t step, std::int64_t begin, std::int64_t end) {
  const auto& entries = arena.plan().buckets[bucket].entries;
  const bool is_whole = optimizer.is_layerwise();
  std::vector<BucketRun> runs;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const BucketEntry& entry = entries[i];
    const std::int64_t behind = i + 1 < entries.size() ? entries[i + 1].offset : end;
    const std::int64_t from = std::max(begin, entry.offset);
    const std::int64_t to = is_whole ? entry.offset + entry.count : std::min(end, behind);
    if (from >= to || !arena.takes_part(entry.parameter)) continue;
    const bool is_vector = (is_whole || optimizer.spares_vectors()) &&
                           arena.plan().parameters[entry.parameter].shape.size() <= 1;
    const BucketRun run{from, to - from, is_vector, step - skipped.counts()[entry.parameter]};
    const bool goes_on = !is_whole && !runs.empty() &&
                         runs.back().offset + runs.back().count == from &&
                         runs.back().is_vector == run.is_vector && runs.back().step == run.step;
    if (goes_on)
      runs.back().count += run.count;
    else
      runs.push_back(run);
  }
  return runs;
}

}  // namespace kolo::parallel
