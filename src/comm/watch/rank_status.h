#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "comm/watch/event_block.h"

namespace kolo {

// What a rank does in one group. Records hold no times here, only ages do: clocks of different
// nodes can't be compared.
struct LaneStatus {
  std::uint64_t identity = 0;
  std::uint64_t has_left = 0;      // 1: the rank calls nothing in it any more
  std::uint64_t members = 0;       // ranks in the group; 0: not known
  std::uint64_t joins = 0;         // of the rank, that have come to their end, which is everybody's
  std::int64_t joined = 0;         // nanoseconds that it has joined; 0: it has not
  std::int64_t waiting = 0;        // nanoseconds in `running`; see WaitingTimes
  std::int64_t completed_age = 0;  // since `completed` ended
  CollectiveRecord running;        // number 0: in none
  CollectiveRecord completed;      // number 0: none yet, or forgotten
};

// What a rank is known to do.
struct RankStatus {
  std::int32_t rank = 0;
  std::int32_t process = 0;
  ProcessState state = ProcessState::unknown;
  bool is_watching = true;         // its watch has looked lately
  std::int64_t waited_at_end = 0;  // EventBlock::waited_at_end
  bool has_left = false;           // it has no communicator any more
  bool says_why = false;           // EventBlock::says_why
  std::int64_t age = 0;  // nanoseconds since this was so; 0 where it was read from shared memory
  std::vector<LaneStatus> lanes;

  [[nodiscard]] bool is_ending() const { return waited_at_end != 0; }
  [[nodiscard]] const LaneStatus* lane(std::uint64_t identity) const;
  // Nanoseconds in the collective it has waited in longest; 0: in none.
  [[nodiscard]] std::int64_t longest_wait() const;
};

// Reads a block; `silence`, in nanoseconds, after which its watch counts as dead.
[[nodiscard]] RankStatus read_status(int rank, const EventBlock& block, std::int64_t silence);

// Writes what a rank has done last to FOLDER/kolo-watch-rank-00002.txt, aside and renamed; returns
// the path. Error when it can't.
std::filesystem::path dump_events(const std::filesystem::path& folder, const RankStatus& status,
                                  const EventBlock& block);

// As bytes and back; what doesn't make sense is nothing.
[[nodiscard]] std::vector<std::byte> to_bytes(const RankStatus& status);
[[nodiscard]] std::optional<RankStatus> from_bytes(std::span<const std::byte> bytes);

}  // namespace kolo
