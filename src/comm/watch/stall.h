#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/watch/event_block.h"

namespace kolo {

// A collective that ranks have been waiting in, or a transfer that one has.
struct Stall {
  std::uint64_t group = 0;     // Lane::identity; of a transfer its own
  std::uint64_t position = 0;  // CollectiveRecord::position()
  std::int64_t waiting = 0;    // nanoseconds of the rank that has waited longest
  std::string collective;      // described
  std::string report;          // the whole message
};

// Finds the collectives that some rank has waited in for at least `least` nanoseconds (at most one
// a group: the last), and each rank's transfer that it has waited for longest, if that long. Says
// how many of the job's `job_size` ranks are not known.
[[nodiscard]] std::vector<Stall> find_stalls(std::span<const RankStatus> statuses, int job_size,
                                             std::int64_t least);

// Describes a collective or transfer that can't be completed: a rank has waited in it for at least
// `least` nanoseconds, and another, which has left or is gone, has not come to it.
[[nodiscard]] std::optional<std::string> find_departure(std::span<const RankStatus> statuses,
                                                        std::int64_t least);

// Counts waiting only while the watch itself runs, because schedulers suspend whole jobs: each look
// adds the time since the look before, and at most `longest_step` of it.
class WaitingTimes {
 public:
  explicit WaitingTimes(std::int64_t longest_step) : longest_step_(longest_step) {}

  // Begins a look, at `now` on the monotonic clock.
  void look(std::int64_t now);

  // Replaces the clock's idea of the rank's waiting in its collectives.
  void correct(RankStatus& status);

 private:
  struct Waiting {
    std::uint64_t position = 0;  // CollectiveRecord::position()
    std::int64_t counted = 0;
    std::int64_t looks = 0;  // counted up to this one
  };

  std::int64_t longest_step_;  // nanoseconds, as all times
  std::int64_t last_look_ = 0;
  std::int64_t step_ = 0;
  std::int64_t looks_ = 0;
  std::map<std::pair<std::int32_t, std::uint64_t>, Waiting> waitings_;  // by rank and group
};

// Describes a deadlock: ranks that have waited for at least `least` nanoseconds for each other, or
// for different collectives at the same position. Counts only ranks whose calls all come from one
// waiting thread.
[[nodiscard]] std::optional<std::string> find_deadlock(std::span<const RankStatus> statuses,
                                                       std::int64_t least);

}  // namespace kolo
