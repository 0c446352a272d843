#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kolo {

// A stage of a network as a chain of them, of which parts of a pipeline are made.
struct ChainStage {
  double work = 0;               // of forward and backward together, in any unit
  std::int64_t bytes_after = 0;  // that go on to the next stage, for a micro-batch
};

// Cuts a chain into contiguous parts, of which part i has the stages [bounds[i], bounds[i + 1]), at
// least one: of all cuts whose largest part has the least work one with the fewest bytes between
// parts. By dynamic programming over parts and ends, once for work and once more for bytes, since
// the best cut of a beginning need not be part of the best cut of all where two aims come one after
// the other. A pure function.
//
// InputError where there are fewer stages than parts; Error for work and sizes that are negative or
// not finite. Costs O(parts stages^2).
[[nodiscard]] std::vector<std::size_t> cut_stages(std::span<const ChainStage> stages, int parts);

}  // namespace kolo
