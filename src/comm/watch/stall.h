#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/watch/rank_status.h"

namespace kolo {

// A collective that ranks have been waiting in.
struct Stall {
  std::uint64_t group = 0;   // Lane::identity
  std::uint64_t place = 0;   // CollectiveRecord::place()
  std::int64_t waiting = 0;  // nanoseconds of the rank that has waited longest
  std::string collective;    // described
  std::string report;        // the whole message
};

// The collectives that some rank has waited in for at least `least` nanoseconds, at most one a
// group: the last. `job_size`: how many ranks there are; those of
// which no status is known are said to be unknown.
[[nodiscard]] std::vector<Stall> find_stalls(std::span<const RankStatus> statuses, int job_size,
                                             std::int64_t least);

// A collective that can't be completed, in words: a rank has waited in it for at least `least`
// nanoseconds, and another, which has left or is gone, has not come to it. Nothing: there is none.
[[nodiscard]] std::optional<std::string> find_departure(std::span<const RankStatus> statuses,
                                                        std::int64_t least);

}  // namespace kolo
