#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kolo/sampling/reservoir.h"

// Saved reservoirs for another number of ranks, or other capacities.
namespace kolo {

// What one rank saved. The order is keep_unseen's (Reservoir::order()).
struct SavedReservoir {
  ReservoirState state;
  std::span<const std::int64_t> order;
};

struct DealtSample {
  std::int64_t rank = 0, slot = 0;  // where it was saved

  [[nodiscard]] bool operator==(const DealtSample&) const = default;
};

// What one of the new ranks gets.
struct DealtReservoir {
  ReservoirState state;              // for Reservoir::restore(), with no order
  std::vector<DealtSample> samples;  // which to put into slots 0, 1, 2, ...
};

// Deals the samples that ranks 0, 1, ... saved to `ranks` new ones, each of which has options of
// its own rank and otherwise the same; what options.rank gets. A pure function. Where all have
// room, none is lost. Otherwise there stay:
//
//   uniform      from each saved rank as many as are in proportion to its arrivals, rounded by
//                chance, as far as it has them; which of its samples, by chance. So as long as no
//                rank has too few, each arrival of any rank is kept with one chance, and what all
//                ranks hold together stays a uniform sample of all that came. A rank has too few
//                where the ranks' arrivals differ and nearly all samples stay: then those of ranks
//                with more arrivals per sample represent less than their share, as before.
//   fifo         the newest: those with the fewest arrivals after them on their own rank.
//   keep_unseen  all that were never drawn (InputError where there is no room for them), then those
//                whose first draw has the fewest first draws after it on their own rank.
//
// Arrivals and draws are shared out equally. So new arrivals enter a uniform reservoir with the
// chance that they would have had if this number of ranks had taken all from the beginning. Where
// fewer samples are dealt than there is room for (more ranks than before), an old arrival's chance
// is less than a new one's, by the share of the room that was filled, and the rest fills with new
// ones at theirs. Of an old rank's samples, a new rank may get all or none: only together do they
// represent all that came.
//
// InputError for states that can't be or are too many for keep_unseen, and as
// reservoir_capacity(). Takes time for all saved samples, and memory for those dealt and those of
// one saved rank.
[[nodiscard]] DealtReservoir deal_reservoirs(std::span<const SavedReservoir> saved,
                                             const ReservoirOptions& options, int ranks);

}  // namespace kolo
