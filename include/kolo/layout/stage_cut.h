#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace kolo {

// A stage of a network as a chain of them, of which parts of a pipeline are made.
struct ChainStage {
  double seconds = 0;             // of forward and backward together; or any other measure of work
  std::int64_t bytes_after = 0;   // that go on to the next stage, for a micro-batch
  std::int64_t memory_bytes = 0;  // whatever the schedule: parameters, gradients, their state
  std::int64_t kept_bytes = 0;    // that backward needs, for a micro-batch
};

struct StageCutOptions {
  int parts = 1;  // ranks, or ranks times chunks of an interleaved schedule
  // Of each part at most; of several chunks per rank each gets the same share of what the rank has.
  std::optional<std::int64_t> memory_limit = std::nullopt;
  // Micro-batches that each part keeps (most_micro_batches_kept()), which counts for its memory;
  // empty: none.
  std::vector<std::int64_t> kept_micro_batches = {};
};

// Part i has stages [bounds[i], bounds[i + 1]), at least one.
struct StageCut {
  std::vector<std::size_t> bounds;
  double largest_seconds = 0;       // of a part: how fast the pipeline can be at best
  std::int64_t bytes_between = 0;   // over all cuts, for a micro-batch
  std::int64_t largest_memory = 0;  // of a part

  friend bool operator==(const StageCut&, const StageCut&) = default;
};

// Cuts a chain into contiguous parts: of all cuts whose parts keep within the memory limit those
// whose largest part takes the least time, of these one with the fewest bytes between parts. By
// dynamic programming over parts and ends, once for time and once more for bytes, since the best
// cut of a beginning need not be part of the best cut of all where two aims come one after the
// other. A pure function; ranks that measured times must agree on them first.
//
// InputError, which says what would do, where there are fewer stages than parts or no cut keeps
// within the limit; Error for times and sizes that are negative or not finite. Costs
// O(parts stages^2).
[[nodiscard]] StageCut cut_stages(std::span<const ChainStage> stages,
                                  const StageCutOptions& options);

}  // namespace kolo
