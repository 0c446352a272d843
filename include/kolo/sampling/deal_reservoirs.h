#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kolo/sampling/reservoir.h"

// Saved reservoirs for another number of ranks, or other capacities.
namespace kolo {

// State that one rank saved, with Reservoir::order() of keep_unseen.
struct SavedReservoir {
  ReservoirState state;
  std::span<const std::int64_t> order;
};

struct DealtSample {
  std::int64_t rank = 0, slot = 0;  // that saved it

  [[nodiscard]] bool operator==(const DealtSample&) const = default;
};

// Share of one of the new ranks.
struct DealtReservoir {
  ReservoirState state;              // for Reservoir::restore(), with no order
  std::vector<DealtSample> samples;  // of slots 0, 1, 2, ...
};

// Deals the samples that ranks 0, 1, ... saved to `ranks` new ones, whose options differ in the
// rank alone, and returns the share of options.rank. A pure function. If all have room, no sample
// is lost; otherwise these stay:
//
//   uniform      samples of each saved rank in proportion to its arrivals, rounded and chosen by
//                chance: all ranks together stay a uniform sample of all arrivals, unless a rank
//                has fewer samples than its proportion
//   fifo         the newest: those with the fewest arrivals after them on their own rank
//   keep_unseen  all that were never drawn (InputError if there is no room for them), then those
//                whose first draw has the fewest first draws after it on their own rank
//
// Arrivals and draws are shared out equally, so new arrivals enter a uniform reservoir with the
// chance that they would have had if this number of ranks had taken all from the beginning. A new
// rank may get all samples of an old one or none: only together do they represent all arrivals.
//
// InputError for impossible states, too many unseen samples, and as reservoir_capacity(). Takes
// time for all saved samples, and memory for those dealt and those of one saved rank.
[[nodiscard]] DealtReservoir deal_reservoirs(std::span<const SavedReservoir> saved,
                                             const ReservoirOptions& options, int ranks);

}  // namespace kolo
