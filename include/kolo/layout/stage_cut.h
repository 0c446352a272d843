#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kolo {

// Stage of a network that is cut into the parts of a pipeline.
struct ChainStage {
  double work = 0;               // of forward and backward together, in any unit
  std::int64_t bytes_after = 0;  // sent to the next stage for a micro-batch
};

// Cuts a chain into contiguous parts: part i has the stages [bounds[i], bounds[i + 1]), at least
// one. Of all cuts whose largest part has the least work it takes one with the fewest bytes between
// parts, by dynamic programming over parts and ends, once for work and then for bytes. A pure
// function.
//
// InputError for fewer stages than parts; Error for work and sizes that are negative or not finite.
// Costs O(parts stages^2).
[[nodiscard]] std::vector<std::size_t> cut_stages(std::span<const ChainStage> stages, int parts);

}  // namespace kolo
