#include "parallel/optimizers/bucket_runs.h"

#include <algorithm>

#include <fmt/format.h>

#include "kolo/base/error.h"

namespace kolo::parallel {

ParameterGroups::ParameterGroups(std::vector<Algorithm> algorithms,
                                 std::vector<std::size_t> group_of)
    : algorithms_(std::move(algorithms)),
      group_of_(std::move(group_of)),
      skipped_(group_of_.size(), 0) {
  // The state is laid out once for all of them.
  const FlatOptimizer& first = *algorithms_.front();
  for (const Algorithm& other : algorithms_) {
    bool has_its_state = std::ranges::equal(other->state_names(), first.state_names());
    for (std::size_t slot = 0; has_its_state && slot < first.state_names().size(); ++slot)
      has_its_state = other->initial_state(slot) == first.initial_state(slot);
    if (other->name() == first.name() && has_its_state) continue;
    throw InputError(fmt::format(
        "parallel: groups of one optimizer are trained by {} and {}{}; they may differ "
        "in options, but not in the kind or in what state it keeps",
        first.name(), other->name(), other->name() == first.name() ? " with other state" : ""));
  }
}

void ParameterGroups::begin(const ParameterArena& arena, std::size_t bucket) {
  for (const BucketEntry& entry : arena.plan().buckets[bucket].entries) {
    if (!arena.takes_part(entry.parameter)) ++skipped_[entry.parameter];
  }
}

std::vector<BucketRun> ParameterGroups::runs(const ParameterArena& arena, std::size_t bucket,
                                             std::int64_t step, std::int64_t begin,
                                             std::int64_t end) const {
  const auto& entries = arena.plan().buckets[bucket].entries;
  std::vector<BucketRun> runs;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const BucketEntry& entry = entries[i];
    const std::size_t group = group_of_[entry.parameter];
    const FlatOptimizer& algorithm = *algorithms_[group];
    const bool is_whole = algorithm.is_layerwise();
    const std::int64_t behind = i + 1 < entries.size() ? entries[i + 1].offset : end;
    const std::int64_t from = std::max(begin, entry.offset);
    const std::int64_t to = is_whole ? entry.offset + entry.count : std::min(end, behind);
    if (from >= to || !arena.takes_part(entry.parameter)) continue;
    const bool is_vector = (is_whole || algorithm.spares_vectors()) &&
                           arena.plan().parameters[entry.parameter].shape.size() <= 1;
    const BucketRun run{from, to - from, is_vector, step - skipped_[entry.parameter], group};
    const bool goes_on = !is_whole && !runs.empty() && runs.back().group == group &&
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
